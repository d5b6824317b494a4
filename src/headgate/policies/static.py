"""static: one size for ever, the baseline that every other policy is measured against."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from pydantic import Field

from headgate.core.types import Instant, Proposal, Target
from headgate.core.window import Window
from headgate.policies.frame.base import PolicyBase, register
from headgate.policies.frame.settings import Settings


class StaticSettings(Settings):
    instances: Annotated[int, Field(ge=1)] | None = None
    """The size to keep; without it, the size the job started with."""


@register
class Static(PolicyBase[StaticSettings]):
    """Keeps one size.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.policies import Context, make_policy
    >>> make_policy("static", Context(parse_objective("latency < 10s"), Topology.single()), {"instances": 4}).name
    'static'
    """

    name = "static"
    summary = "One size for ever; the baseline."
    Settings = StaticSettings

    def keeps(self, size: int) -> bool:
        # A policy that extends this one may decide otherwise.
        return type(self).decide is Static.decide and self.settings.instances in (None, size)

    def decide(self, now: Instant, window: Window) -> Proposal:
        targets = {}
        for operator in window.operators:
            if (instances := window.instances(operator)) is not None:
                size = self.settings.instances or instances.planned
                targets[operator] = _fixed(size)
        return Proposal(targets)


@lru_cache(maxsize=1024, typed=True)  # One value for as long as the size stays.
def _fixed(size: int) -> Target:
    return Target(size, "static", f"the size is fixed at {size}", {"instances": size})
