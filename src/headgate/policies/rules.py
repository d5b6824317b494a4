"""rules: the rule language of ``headgate.rules``, known here by its name like every other policy."""

from headgate.policies.frame.base import register
from headgate.rules.rules_policy import RulesPolicy

register(RulesPolicy)
