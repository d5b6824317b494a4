"""Jobs that other processes run, as one engine: each has an agent that reports and receives its size."""

from headgate.engines.agents.mailbox import AgentsEngine
from headgate.engines.agents.wire import Reply, Report

__all__ = ["AgentsEngine", "Reply", "Report"]
