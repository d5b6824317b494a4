"""Experiments on a real Flink cluster of this machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.core.types import JSON
from headgate.lab.scenario import Progress
from headgate.render.page import Plot

if TYPE_CHECKING:
    from headgate.local.kafka import LocalKafka

START_S = 30.0
"""About how long a cluster and a job take to start; for the progress."""


@dataclass(frozen=True)
class PolicyReport:
    """The figures, time series and plot of a policy's run."""

    policy: str
    figures: Mapping[str, JSON]
    course: Mapping[str, JSON]
    plot: Plot


def report_policies(
    policies: Collection[str], run: Callable[[str, LocalKafka, Progress], PolicyReport], progress: Progress
) -> list[PolicyReport]:
    """Run each policy in turn, all of them with the same broker."""
    from headgate.local.kafka import LocalKafka

    reports: list[PolicyReport] = []
    with LocalKafka() as kafka:
        for policy in policies:
            reports.append(run(policy, kafka, lambda share: progress((len(reports) + share) / len(policies))))
    return reports
