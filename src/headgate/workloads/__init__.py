"""What arrives at a job, as a rate over time: synthetic shapes and recorded traces."""

from headgate.workloads.contract import Workload
from headgate.workloads.parse import parse_workload

__all__ = ["Workload", "parse_workload"]
