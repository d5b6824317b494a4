"""The mathematics of planning sizes as a Markov decision process: pure, on arrays, without windows or proposals.

Nothing here is a policy. The policies ``mdp``, ``rl-centralized``, ``rl-decentralized`` and ``mdp-path`` wrap what is
here; the slotted network of ``headgate.simulation`` evaluates the same planners slot by slot.
"""
