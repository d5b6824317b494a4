"""What runs the operators: the contract of an engine and everything that its author needs.

Derive from :class:`EngineBase` and register the class under the entry point ``headgate.engines``; check it with
``headgate.testing.check_engine``. The engines of this package (``spark``, ``flink``, ``agents``) are not imported here.
"""

from headgate.core.contracts import Engine, Subscribable
from headgate.core.errors import EngineError, EngineGoneError, UnsupportedEngineError
from headgate.core.topology import Sizing, Topology
from headgate.core.types import (
    Answer,
    Batch,
    Decision,
    Instances,
    Instant,
    Observation,
    Outcome,
    Receipt,
    Sample,
    Startup,
    Verdict,
)
from headgate.engines.base import EngineBase

__all__ = [
    "Answer",
    "Batch",
    "Decision",
    "Engine",
    "EngineBase",
    "EngineError",
    "EngineGoneError",
    "Instances",
    "Instant",
    "Observation",
    "Outcome",
    "Receipt",
    "Sample",
    "Sizing",
    "Startup",
    "Subscribable",
    "Topology",
    "UnsupportedEngineError",
    "Verdict",
]
