"""rules: the rule language of ``headgate.rules``, known here by its name like every other policy."""

from headgate.policies.base import register
from headgate.rules.rules_policy import RulesPolicy

register(RulesPolicy)
