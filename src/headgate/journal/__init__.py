"""The memory of control loops: what was seen, decided, done and learned.

``contract.py`` says what a journal offers, ``sqlite.py`` keeps it in a file, ``memory.py`` in the process, and
``story.py`` turns it back into what happened and why. ``retention.py`` says what of it is kept how long.
"""
