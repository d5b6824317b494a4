"""At the top one scaling technique per file, each found by its name; what several share lies in the folders."""

from headgate.policies.frame.base import (
    Context,
    PolicyMaker,
    brought_policies,
    make_policy,
    policy_class,
    policy_from,
    policy_names,
)

__all__ = ["Context", "PolicyMaker", "brought_policies", "make_policy", "policy_class", "policy_from", "policy_names"]
