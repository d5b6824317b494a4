"""One scaling technique per file; each is found by its name."""

from headgate.policies.base import Context, PolicyMaker, make_policy, policy_class, policy_from, policy_names

__all__ = ["Context", "PolicyMaker", "make_policy", "policy_class", "policy_from", "policy_names"]
