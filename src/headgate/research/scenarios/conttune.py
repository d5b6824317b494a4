"""conttune: capacity at a parallelism of 20 and more, foretold from 8 and fewer."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.lab.scenario import Outcome, Progress, scenario
from headgate.render.plots import Plot
from headgate.research.conttune import ASKED, KNOWN, AveragedCapacity, Capacities, left_out, read_capacities, rows_of

NOTES = (
    "measured_per_s is what a map operator of Nexmark query 1 got through on Flink (ContTune, VLDB 2023). Every model "
    f"is fitted to a parallelism of at most {KNOWN} and asked for at least {ASKED}.",
    "averaged is the mean over four forms of scaling, each counted by how well it explains what is known; median is "
    "that of the same, and from and to bound its 90 % interval. The other columns are least-squares fits of one form "
    "each; off is by how much a guess is above the truth.",
)


@scenario(
    "conttune",
    "Capacity at 20 to 26 instances from measurements at 1 to 8: averaged model beside four fits.",
    takes_s=7.0,
)
def run(progress: Progress) -> Outcome:
    capacities = read_capacities()
    known = capacities.part(lambda size: size <= KNOWN)
    model = AveragedCapacity(known.sizes, known.rates_per_s)
    told = ", ".join(f"{form} {weight:.2f}" for form, weight in model.weights.items())
    progress(0.2)
    rows, others = rows_of(capacities), left_out(capacities)
    progress(1.0)
    believed = f"How much each form is believed by what is known: {told}."
    return Outcome(rows, (*NOTES, believed), [_plot(capacities, model)], details=others)


def _plot(capacities: Capacities, model: AveragedCapacity) -> Plot:
    sizes = [*capacities.sizes]
    bounds = [model.quantiles(size, 0.05, 0.95) for size in sizes]
    lines: Sequence[tuple[str, str, list[float]]] = (
        ("measured", "markers", [*capacities.rates_per_s]),
        ("5 %", "lines", [low for low, _ in bounds]),
        ("mean", "lines", [model.mean(size) for size in sizes]),
        ("95 %", "lines", [high for _, high in bounds]),
    )
    return Plot(
        f"Fitted to {KNOWN} and fewer, asked for more",
        [{"type": "scatter", "mode": mode, "name": name, "x": sizes, "y": values} for name, mode, values in lines],
        {"xaxis": {"title": {"text": "parallelism"}}, "yaxis": {"title": {"text": "records/s"}}},
        "Points: capacity as measured. Lines: what the model expects, and between which values nine of ten should lie.",
    )
