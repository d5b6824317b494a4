"""At the top one scaling technique per file, each found by its name; what several share lies in the folders."""

from headgate.policies.frame.base import Context, PolicyMaker, make_policy, policy_class, policy_from, policy_names

DEFAULT_POLICY = "autopilot"
"""Who decides where nothing is said."""

__all__ = ["DEFAULT_POLICY", "Context", "PolicyMaker", "make_policy", "policy_class", "policy_from", "policy_names"]
