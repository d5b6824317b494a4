"""The sizes that a policy compared, as a table and in words: why a size was not chosen.

A policy that prices sizes records what it expected of each (``PricedSize``). Everything here is read from a decision;
nothing is simulated again.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.types import JSON, Instant, PricedSize, Verdict
from headgate.core.units import instances_in_words, plain

HEADINGS = ("instances", "their cost", "late records", "together", "late", "chance to break")
"""Of ``ladder_cells``: costs are in instance-seconds, the last two in percent."""


def ladder_cells(verdict: Verdict) -> list[tuple[str, ...]]:
    """Return a row for each size that was compared; the proposed one is marked.

    >>> sizes = (PricedSize(2, 60.0, 90.5, 0.25, 0.07), PricedSize(3, 90.0, 0.0, 0.0, 0.05))
    >>> ladder_cells(Verdict("job", 3, 3, 3, "steady", "right", alternatives=sizes))
    [('2', '60', '90.5', '150.5', '25%', '7%'), ('▸ 3', '90', '0', '90', '0%', '5%')]
    """
    return [
        (
            f"▸ {size.instances}" if size.instances == verdict.proposed else str(size.instances),
            f"{size.instance_s:g}",
            f"{size.late_s:g}",
            f"{round(size.cost_s, 1):g}",
            _percent(size.late_share),
            _percent(size.break_chance),
        )
        for size in verdict.alternatives
    ]


def ladder_in_words(verdict: Verdict) -> str:
    """Return the sizes that were compared in one line.

    >>> sizes = (PricedSize(2, 60.0, 90.5, 0.25, 0.07), PricedSize(3, 90.0, 0.0, 0.0, 0.05))
    >>> ladder_in_words(Verdict("job", 3, 3, 3, "steady", "right", alternatives=sizes))
    '2: 60 + 90.5, 25% late · ▸ 3: 90 + 0, 0% late'
    """
    cells = ladder_cells(verdict)
    return " · ".join(f"{name}: {instances} + {late}, {share} late" for name, instances, late, _, share, _ in cells)


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why an operator did not get a size in a decision."""

    at_s: Instant
    size: int
    verdict: Verdict

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return why_not(self.verdict, self.size)

    def to_json(self) -> dict[str, JSON]:
        return {
            "at_s": self.at_s,
            "operator": self.verdict.operator,
            "size": self.size,
            "target": self.verdict.target,
            "answer": self.sentence,
            "alternatives": [size._asdict() for size in self.verdict.alternatives],
        }


def why_not(verdict: Verdict, size: int) -> str:
    """Return why a decision is not ``size``, by what the policy expected of the sizes that it compared."""
    subject = instances_in_words(size)
    if size == verdict.target:
        return f"{subject}: that is what was decided; {verdict.reason}."
    if size == verdict.proposed:
        notes = "; ".join(f"{note.guard}: {note.why}" for note in verdict.notes if note.before != note.after)
        return f"{subject}: that was proposed, and guards made it {verdict.target}; {notes}."
    if not verdict.alternatives:
        return f"{subject}: this decision compared no sizes; its reason for {verdict.target} is: {verdict.reason}."
    priced = {found.instances: found for found in verdict.alternatives}
    if size not in priced:
        return f"{subject}: not simulated; {_why_not_compared(verdict, size)}."
    expected, chosen = f"{subject} would cost {_costs(priced[size])}", priced.get(verdict.proposed)
    if chosen is None:
        return f"{expected}. {verdict.proposed} was not among the sizes compared; its reason is: {verdict.reason}."
    against = f"{verdict.proposed} cost {_costs(chosen)}"
    difference_s = priced[size].cost_s - chosen.cost_s
    if difference_s > 0:
        return f"{expected}. {against}: {plain(difference_s)} less."
    return f"{expected}. {against}, not less; {verdict.proposed} has another reason: {verdict.reason}."


def _why_not_compared(verdict: Verdict, size: int) -> str:
    compared = [found.instances for found in verdict.alternatives]
    if size > compared[-1]:
        return (
            f"more than {compared[-1]} are not allowed, not useful, or cost more than the cheapest size by their "
            "instances alone"
        )
    if size < compared[0]:
        return f"fewer than {compared[0]} are not allowed, or would not work off what is late already"
    lower, upper = max(other for other in compared if other < size), min(other for other in compared if other > size)
    near = [found for found in verdict.alternatives if found.instances in (lower, upper)]
    return "of the sizes next to it, " + " and ".join(f"{found.instances} would cost {_costs(found)}" for found in near)


def _costs(size: PricedSize) -> str:
    return (
        f"{plain(size.instance_s)} instance-seconds and {plain(size.late_s)} for late records "
        f"({_percent(size.late_share)} of them late, {_percent(size.break_chance)} chance to miss the objective)"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
