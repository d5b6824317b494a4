"""Importing this module registers the generator of each application's records; it needs no Spark."""

from __future__ import annotations

from headgate.apps.records.clicks import Clicks
from headgate.apps.records.examples import Examples
from headgate.apps.records.flights import Positions
from headgate.apps.records.nexmark import NexmarkEvents
from headgate.apps.records.pages import PageViews
from headgate.apps.records.plugs import PlugReadings
from headgate.apps.records.tasks import TaskEvents
from headgate.apps.records.words import Messages, Sentences
from headgate.workloads.payloads import PayloadsFactory, register_payloads

MADE_BY: dict[str, PayloadsFactory] = {
    "smart-plugs": PlugReadings,
    "click-fraud": Clicks,
    "cluster-tasks": TaskEvents,
    "grep": Sentences,
    "rolling-count": Sentences,
    "unique-visitor": PageViews,
    "page-view": PageViews,
    "data-clean": PageViews,
    "hoeffding-tree": Examples,
    "rolling-hashtag-count": Messages,
    "flight-distances": Positions,
    **{f"nexmark-{query}": NexmarkEvents for query in (1, 2, 3, 5, 8, 11)},
}
for _name, _factory in MADE_BY.items():
    register_payloads(_name, _factory)
