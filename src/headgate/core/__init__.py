"""The pure centre: values in, an explained decision out.

Nothing in here does I/O, reads a clock or knows an engine. Start reading at ``step.py``.
"""
