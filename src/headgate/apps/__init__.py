"""Streaming applications in PySpark Structured Streaming, for the demo, the tests and the lab.

``LoadSource`` generates a load, and ``working`` makes each of its records cost time. Names are resolved on first use.
"""

from typing import TYPE_CHECKING

from headgate.core.extras import lazy_attributes

if TYPE_CHECKING:
    from headgate.apps.load_source import LoadSource
    from headgate.apps.steady_job import working

__all__ = ["LoadSource", "working"]

__getattr__ = lazy_attributes(
    __name__, {"LoadSource": "headgate.apps.load_source", "working": "headgate.apps.steady_job"}
)
