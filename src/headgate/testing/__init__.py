"""For tests of plug-ins: a fake clock, and checks of policies, engines, adaptors, forecasters and journals."""

from headgate.testing.adaptors import ADAPTOR_CHECKS, check_adaptor
from headgate.testing.clock import FakeClock
from headgate.testing.contract import ContractViolation
from headgate.testing.engines import ENGINE_CHECKS, check_engine
from headgate.testing.forecasters import FORECASTER_CHECKS, check_forecaster, named_forecaster
from headgate.testing.hostile import HOSTILE_STREAMS, check_hostile_readings
from headgate.testing.journal_features import RETENTION_CHECKS, WRITER_CHECKS
from headgate.testing.journals import JOURNAL_CHECKS, check_journal
from headgate.testing.policies import POLICY_CHECKS, check_policy, last_target, named_policy

__all__ = [
    "ADAPTOR_CHECKS",
    "ENGINE_CHECKS",
    "FORECASTER_CHECKS",
    "HOSTILE_STREAMS",
    "JOURNAL_CHECKS",
    "POLICY_CHECKS",
    "RETENTION_CHECKS",
    "WRITER_CHECKS",
    "ContractViolation",
    "FakeClock",
    "check_adaptor",
    "check_engine",
    "check_forecaster",
    "check_hostile_readings",
    "check_journal",
    "check_policy",
    "last_target",
    "named_forecaster",
    "named_policy",
]
