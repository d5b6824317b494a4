"""Scaling rules that read like English: in Python, in YAML or in JSON, and changed while the job runs."""

from headgate.core.metrics import Observed as observed
from headgate.rules.fluent import constraint, policy, rule
from headgate.rules.model import Constraint, Rule, RulePolicy, Trigger
from headgate.rules.nodes import Problem, RuleErrors
from headgate.rules.policy import Rules
from headgate.rules.units import minutes, percent, records, records_per_s, seconds

__all__ = [
    "Constraint",
    "Problem",
    "Rule",
    "RuleErrors",
    "RulePolicy",
    "Rules",
    "Trigger",
    "constraint",
    "minutes",
    "observed",
    "percent",
    "policy",
    "records",
    "records_per_s",
    "rule",
    "seconds",
]
