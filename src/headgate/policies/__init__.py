"""Scaling policies: one technique per file at the top, found by its name; what several share lies in the folders.

The names exported here are what the author of a policy needs.
"""

from headgate.core.contracts import Policy
from headgate.core.guards import STRATEGIES, ProposedStep
from headgate.core.objective import Objective
from headgate.core.topology import Topology
from headgate.core.types import JSON, Batch, Instances, Instant, Number, PricedSize, Proposal, Sample, Target
from headgate.core.window import Window
from headgate.policies.frame.base import (
    Context,
    GuardSettings,
    OperatorPolicy,
    PolicyBase,
    PolicyMaker,
    StateTable,
    brought_policies,
    hold,
    make_policy,
    policy_class,
    policy_from,
    policy_names,
    register,
)
from headgate.policies.frame.readings import busy_share, reading_of, readings_over, startup_s
from headgate.policies.frame.settings import PositiveSeconds, Seconds, Settings, Share
from headgate.policies.q_values.agent import EXPLORATIONS, REWARDS, ActionResult, Choice
from headgate.policies.q_values.table import INITIALISERS, Action, NewState, Region

__all__ = [
    "EXPLORATIONS",
    "INITIALISERS",
    "JSON",
    "REWARDS",
    "STRATEGIES",
    "Action",
    "ActionResult",
    "Batch",
    "Choice",
    "Context",
    "GuardSettings",
    "Instances",
    "Instant",
    "NewState",
    "Number",
    "Objective",
    "OperatorPolicy",
    "Policy",
    "PolicyBase",
    "PolicyMaker",
    "PositiveSeconds",
    "PricedSize",
    "Proposal",
    "ProposedStep",
    "Region",
    "Sample",
    "Seconds",
    "Settings",
    "Share",
    "StateTable",
    "Target",
    "Topology",
    "Window",
    "brought_policies",
    "busy_share",
    "hold",
    "make_policy",
    "policy_class",
    "policy_from",
    "policy_names",
    "reading_of",
    "readings_over",
    "register",
    "startup_s",
]
