"""Planning sizes as a Markov decision process: the planners, pure and on arrays, and the frame that runs one in a job.

``slotted`` is what the policies ``mdp``, ``rl-centralized``, ``rl-decentralized`` and ``mdp-path`` share; it alone
knows windows and proposals. ``headgate.research.russo`` evaluates the same planners slot by slot, without it.
"""
