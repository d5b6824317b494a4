"""Shared parts of policies that choose one size for a whole block of time: when to decide, and for which load."""
