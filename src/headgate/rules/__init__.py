"""Scaling rules that read like English: in Python, in YAML or in JSON, and changed while the job runs."""

from headgate.core.metrics import Observed
from headgate.documents import DocumentError, Problem
from headgate.rules.fluent import constraint, policy, rule
from headgate.rules.model import Constraint, Rule, RulePolicy, Trigger
from headgate.rules.rules_policy import Rules
from headgate.rules.units import minutes, percent, records, records_per_s, seconds

__all__ = [
    "Constraint",
    "DocumentError",
    "Observed",
    "Problem",
    "Rule",
    "RulePolicy",
    "Rules",
    "Trigger",
    "constraint",
    "minutes",
    "percent",
    "policy",
    "records",
    "records_per_s",
    "rule",
    "seconds",
]
