"""One scaling technique per file; each is found by its name."""

from headgate.policies.base import Context, make_policy, policy_class, policy_names

__all__ = ["Context", "make_policy", "policy_class", "policy_names"]
