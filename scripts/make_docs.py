"""Fill in what the documentation takes from the code: settings tables, measurements, and the plot of every policy.

``python scripts/make_docs.py`` rewrites ``docs/`` in place; with ``--check`` it only says what is out of date (without
the plots, which take a while). A page asks for a table by the line ``<!-- settings -->``, or
``<!-- settings: NAME -->`` where the page is not named after its policy; ``guards`` is the table of the stabilisers,
``retention`` that of what journals keep.
``<!-- benchmark: NAME -->`` asks for what a benchmark measured, ``<!-- benchmark: NAME where KEY=VALUE; … -->`` for
the rows of which that is true, ``<!-- benchmark: NAME columns KEY, … -->`` for some columns, and
``<!-- plot: NAME, TEXT -->`` for the plot of it, once it was measured. ``<!-- figures: NAME -->`` is the table of a
document's tables and figures: ``docs/lab/figures/NAME.yaml``, whose entries name the recorded values that they show.
``--benchmarks`` first takes over what the last ``make bench`` measured, ``--benchmarks NAME …`` only what is named.
What is made by
running something is in ``docs_outputs.py``.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from docs_outputs import with_outputs
from ruamel.yaml import YAML

from headgate.core.objective import parse_objective
from headgate.core.units import format_duration
from headgate.journal.contract import Retention
from headgate.policies import policy_class, policy_names
from headgate.policies.frame.base import GuardSettings
from headgate.policies.frame.settings import describe_settings
from headgate.rules import Rules
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.workloads import parse_workload

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MEASURED = DOCS / "benchmarks"
TAKEN_FROM = ROOT / "artifacts" / "benchmarks"
MODELS = ROOT / "src" / "headgate" / "runtime" / "models"
OTHER_SETTINGS = {"guards": GuardSettings, "retention": Retention}
BLOCK = re.compile(r"<!-- settings(?:: (?P<name>[\w-]+))? -->\n(?:.*?<!-- /settings -->\n)?", re.DOTALL)
BENCHMARK = re.compile(
    r"<!-- benchmark: (?P<name>[\w.-]+)(?P<where> where [^>]+?)?(?P<columns> columns [^>]+?)? -->\n"
    r"(?:(?:(?!<!-- benchmark:).)*?<!-- /benchmark -->\n)?",
    re.DOTALL,
)
FIGURES = re.compile(
    r"<!-- figures: (?P<name>[\w.-]+) -->\n(?:(?:(?!<!-- figures:).)*?<!-- /figures -->\n)?", re.DOTALL
)
VALUE = re.compile(r"\{(?P<name>[\w.-]+)\|(?P<which>[^|}]*)\|(?P<key>[^}]+)\}")
FIGURE_COLUMNS = ("figure", "shows", "command", "document", "here", "agrees")
PLOT = re.compile(
    r"<!-- plot: (?P<name>[\w.-]+), (?P<text>[^>]+) -->\n(?:(?:(?!<!-- plot:).)*?<!-- /plot -->\n)?", re.DOTALL
)

HEADINGS = {"asked": "objective", "kept": "met", "who": "contender"}
"""Words in tables, by those in the keys of recorded results."""
LIVE = ("rouaux-5.3.5", "giannakopoulos-live", "azimi-live")
"""Experiments on real Spark: ``headgate lab run NAME --json artifacts/benchmarks/NAME.json``."""

# The run that every policy's plot shows: a load that swings between an instance and a half and ten and a half.
WORKLOAD = "sine:mean=60,amplitude=45,period=1h"
OBJECTIVE = parse_objective("latency p95 < 10s").within(1, 15)
SERVICE_RATE_PER_S = 10.0
STARTUP_S = 30.0
SECONDS = 2 * 3600.0


def settings_table(name: str) -> str:
    """A Markdown table of the settings of a policy, of the guards, or of what journals keep."""
    kind = OTHER_SETTINGS[name] if name in OTHER_SETTINGS else policy_class(name).Settings
    rows = [
        (f"`{row['name']}`", _default(row["name"], row["default"]), row["allowed"] or row["type"], row["help"])
        for row in describe_settings(kind)
    ]
    return _table(("setting", "default", "allowed", "what it is"), rows) if rows else "It has no settings.\n"


def benchmark_table(name: str, where: str = "", columns: str = "") -> str:
    """A Markdown table of what a benchmark measured when its results were last taken over."""
    measured = MEASURED / f"{name}.json"
    if not measured.exists():
        return "It has not been measured yet.\n"
    rows = recorded_rows(name)
    conditions = _conditions(where)
    found = [row for row in rows if all(_number(row[key]) == value for key, value in conditions.items())]
    names = (
        [key.strip() for key in columns.split(",")] if columns else [key for key in rows[0] if key not in conditions]
    )
    return _table([_heading(key) for key in names], [[_number(row.get(key)) for key in names] for row in found])


def recorded_rows(name: str) -> list[dict[str, Any]]:
    """The rows of a recorded result; an object in a cell becomes a cell for each of its keys."""
    rows = json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return [
        {
            f"{key}_{part}" if part else key: value
            for key, cell in row.items()
            for part, value in (cell.items() if isinstance(cell, dict) else (("", cell),))
        }
        for row in rows
    ]


def _conditions(where: str) -> dict[str, str]:
    return dict(condition.strip().split("=", 1) for condition in where.split(";") if condition.strip())


def figures_table(name: str) -> str:
    """The Markdown table of a document's tables and figures, with recorded values in place of their names."""
    entries = YAML(typ="safe").load(DOCS / "lab" / "figures" / f"{name}.yaml")
    rows = [[VALUE.sub(_recorded, str(entry.get(key, ""))) for key in FIGURE_COLUMNS] for entry in entries]
    return _table(("in the document", "what it shows", "command", "the document", "here", "agrees"), rows)


def _recorded(match: re.Match[str]) -> str:
    """Return the value named by ``{NAME|KEY=VALUE; …|COLUMN}``, or found in the notes by ``{NAME|note|PATTERN}``."""
    name, which, key = match["name"], match["which"], match["key"]
    if which == "note":
        notes = json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))["notes"]
        found = [hit[1] for note in notes if (hit := re.search(key, note))]
    else:
        conditions = _conditions(which)
        found = [
            _number(row[key])
            for row in recorded_rows(name)
            if all(_number(row.get(column)) == value for column, value in conditions.items())
        ]
    if len(found) != 1:
        raise ValueError(f"{match[0]} names {len(found)} values of {name}; it must name one.")
    return found[0]


def _heading(key: str) -> str:
    """Return the name of a recorded figure in a table; the keys of recorded results do not change."""
    return " ".join(HEADINGS.get(word, word) for word in key.replace("_", " ").split(" "))


def _number(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    table_rows = (" | ".join(str(cell).replace("|", "\\|").replace("``", "`") for cell in line) for line in lines)
    return "".join(f"| {line} |\n" for line in table_rows)


def _default(name: str, value: object) -> str:
    if value is None:
        return "none"
    if name.endswith("_s") and isinstance(value, int | float):
        return format_duration(float(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_tables(page: Path) -> str:
    """The text of a page with its tables filled in anew."""

    def fill(match: re.Match[str]) -> str:
        name = match["name"] or page.stem
        marker = f"<!-- settings: {match['name']} -->" if match["name"] else "<!-- settings -->"
        return f"{marker}\n\n{settings_table(name)}\n<!-- /settings -->\n"

    def fill_benchmark(match: re.Match[str]) -> str:
        where, columns = match["where"] or "", match["columns"] or ""
        table = benchmark_table(match["name"], where.removeprefix(" where "), columns.removeprefix(" columns "))
        return f"<!-- benchmark: {match['name']}{where}{columns} -->\n\n{table}\n<!-- /benchmark -->\n"

    def fill_figures(match: re.Match[str]) -> str:
        return f"<!-- figures: {match['name']} -->\n\n{figures_table(match['name'])}\n<!-- /figures -->\n"

    def fill_plot(match: re.Match[str]) -> str:
        name, text = match["name"], match["text"]
        plot = f"\n![{text}](../images/{name}.svg)\n\n" if (MEASURED / f"{name}.json").exists() else ""
        return f"<!-- plot: {name}, {text} -->\n{plot}<!-- /plot -->\n"

    text = BENCHMARK.sub(fill_benchmark, BLOCK.sub(fill, page.read_text(encoding="utf-8")))
    return with_outputs(PLOT.sub(fill_plot, FIGURES.sub(fill_figures, text)))


def standard_run(policy: str) -> SimulationResult:
    return simulate(
        # Without a file there are no rules, and nothing to see.
        Rules.from_file(ROOT / "examples" / "rules.yaml") if policy == "rules" else policy,
        parse_workload(WORKLOAD),
        objective=OBJECTIVE,
        service_rate_per_s=SERVICE_RATE_PER_S,
        model="micro-batch",
        start=5,
        startup_s=STARTUP_S,
        seconds=SECONDS,
    )


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    # Names and text that do not change from run to run keep the files' history small.
    mpl.rcParams.update({"svg.hashsalt": "headgate", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, panels: Iterable[Any], path: Path) -> None:
    for panel in panels:
        panel.set_ylim(bottom=0)
        panel.grid(color="#e9edf2")
        panel.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    _pyplot().close(figure)


def draw(policy: str, path: Path) -> None:
    """The plot of a policy's standard run: load, latency against its bound, instances."""
    pyplot = _pyplot()
    series = standard_run(policy).record.series()
    minutes = [point["t"] / 60 for point in series]
    figure, panels = pyplot.subplots(3, 1, sharex=True, figsize=(8, 4.2), layout="constrained")
    panels[0].plot(minutes, [point["input_rate"] for point in series], color="#2563eb")
    panels[0].set_ylabel("records/s")
    panels[1].plot(minutes, [point["latency_s"] for point in series], color="#7c3aed")
    panels[1].axhline(10.0, color="#dc2626", linestyle="--", linewidth=1)
    panels[1].set_ylabel("latency, s")
    panels[2].step(minutes, [point["planned"] for point in series], color="#94a3b8", linestyle=":", where="post")
    panels[2].step(minutes, [point["ready"] for point in series], color="#0f766e", where="post")
    panels[2].set_ylabel("instances")
    panels[2].set_xlabel("minutes")
    _save(figure, panels, path)


def draw_fidelity(path: Path) -> None:
    """Backlog and executors of live runs next to those of the calibrated simulator, by load shape."""
    series = json.loads((MEASURED / "fidelity.json").read_text(encoding="utf-8"))["series"]
    figure, panels = _pyplot().subplots(
        2, len(series), sharex="col", sharey="row", squeeze=False, figsize=(9, 3.6), layout="constrained"
    )
    for column, (shape, runs) in enumerate(series.items()):
        for name, colour in (("live", "#0f766e"), ("simulated", "#dc2626")):
            run = runs[name]
            panels[0][column].plot(run["t"], run["backlog"], color=colour, linewidth=1, label=name)
            panels[1][column].step(run["t"], run["executors"], color=colour, linewidth=1, where="post")
        panels[0][column].set_title(shape)
        panels[1][column].set_xlabel("seconds")
    panels[0][0].set_ylabel("records waiting")
    panels[1][0].set_ylabel("executors")
    panels[0][0].legend(frameon=False)
    _save(figure, panels.flat, path)


def draw_kafka_load(path: Path) -> None:
    """What the first run of each policy did on the Kafka job: its load, the longest delays, executors."""
    measured = json.loads((MEASURED / "kafka-load.json").read_text(encoding="utf-8"))
    figure, panels = _pyplot().subplots(3, 1, sharex=True, figsize=(8, 4.8), layout="constrained")
    panels[0].plot(*zip(*measured["load"], strict=True), color="#64748b")
    panels[0].set_ylabel("records/s")
    colours = {"autopilot": "#0f766e", "hpa": "#2563eb", "reactive": "#dc2626"}
    for run in measured["runs"]:
        if run["number"] == 1 and run["contender"] in colours:
            colour = colours[run["contender"]]
            panels[1].plot(*zip(*run["delays"], strict=True), color=colour, linewidth=1, label=run["contender"])
            panels[2].step(*zip(*run["sizes"], strict=True), color=colour, linewidth=1, where="post")
    panels[1].axhline(measured["bound_s"], color="#94a3b8", linestyle="--", linewidth=1)
    panels[1].set_ylabel("longest delay, s")
    panels[1].legend(frameon=False)
    panels[2].set_ylabel("executors")
    panels[2].set_xlabel("seconds")
    _save(figure, panels, path)


def draw_mst(path: Path) -> None:
    """What every application sustained by its executors, and the chosen model."""
    curves = json.loads((MEASURED / "mst.json").read_text(encoding="utf-8"))["curves"]
    columns = 6
    lines = -(-len(curves) // columns)
    figure, panels = _pyplot().subplots(
        lines, columns, sharex=True, squeeze=False, figsize=(10, 1.8 * lines), layout="constrained"
    )
    for panel, (name, found) in zip(panels.flat, curves.items(), strict=False):
        sizes, per_s = zip(*found["curve"], strict=True)
        panel.plot(sizes, [value / 1000 for value in per_s], color="#2563eb", linewidth=1)
        measured_at, measured = zip(*found["measured"], strict=True)
        panel.plot(measured_at, [value / 1000 for value in measured], ".", color="#0f766e", markersize=4)
        panel.set_title(name, fontsize=8)
        panel.set_xticks(sizes)
    for panel in panels.flat[len(curves) :]:
        panel.set_axis_off()
    for line in panels:
        line[0].set_ylabel("1,000 records/s")
    for panel in panels[-1]:
        panel.set_xlabel("executors")
    _save(figure, panels.flat, path)


def draw_live(scenario: str, path: Path) -> None:
    """A document's experiment on real Spark: load, latency against its bound and executors, a column per policy."""
    runs = json.loads((MEASURED / f"{scenario}.json").read_text(encoding="utf-8"))["details"]
    figure, panels = _pyplot().subplots(
        3, len(runs), sharex=True, sharey="row", squeeze=False, figsize=(9, 4.2), layout="constrained"
    )
    for column, run in zip(panels.T, runs, strict=True):
        series = run["series"]
        seconds = [point["t"] for point in series]
        column[0].plot(seconds, [point["input_rate"] for point in series], color="#2563eb", linewidth=1)
        column[1].plot(seconds, [point["latency_s"] for point in series], color="#7c3aed", linewidth=1)
        column[1].axhline(run["bound_s"], color="#dc2626", linestyle="--", linewidth=1)
        column[2].step(seconds, [point["planned"] for point in series], color="#94a3b8", linestyle=":", where="post")
        column[2].step(seconds, [point["ready"] for point in series], color="#0f766e", linewidth=1, where="post")
        column[0].set_title(run["policy"])
        column[2].set_xlabel("seconds")
    for panel, label in zip(panels[:, 0], ("records/s", "latency, s", "executors"), strict=True):
        panel.set_ylabel(label)
    _save(figure, panels.flat, path)


def draw_russo(path: Path) -> None:
    """The average cost from the start of the year on, a line per policy (figure 2a of russo)."""
    runs = json.loads((MEASURED / "russo-table-1.json").read_text(encoding="utf-8"))["details"]
    figure, panel = _pyplot().subplots(figsize=(8, 3.4), layout="constrained")
    for run in runs:
        days = [365 * (place + 1) / len(run["costs"]) for place in range(len(run["costs"]))]
        panel.plot(days, run["costs"], linewidth=1, label=run["policy"])
    panel.set_xlabel("days")
    panel.set_ylabel("average cost per minute")
    panel.legend(frameon=False, fontsize=8)
    _save(figure, [panel], path)


def draw_flink_bottleneck(path: Path) -> None:
    """A load, the longest delays by the sink, and the sizes of the slow middle and of its neighbours, by policy."""
    runs = json.loads((MEASURED / "flink-bottleneck.json").read_text(encoding="utf-8"))["details"]
    figure, panels = _pyplot().subplots(3, 1, sharex=True, figsize=(8, 4.8), layout="constrained")
    panels[0].plot(*zip(*runs[0]["load"], strict=True), color="#64748b")
    panels[0].set_ylabel("records/s")
    styles = (("#0f766e", "-"), ("#2563eb", "--"), ("#dc2626", ":"))
    for run, (colour, line) in zip(runs, styles, strict=True):
        style = {"color": colour, "linestyle": line, "linewidth": 1.2}
        panels[1].plot(*zip(*run["delays"], strict=True), **style, label=run["policy"])
        for sizes in run["sizes"].values():
            is_middle = sizes is max(run["sizes"].values(), key=lambda steps: max(size for _, size in steps))
            panels[2].step(*zip(*sizes, strict=True), where="post", **style, alpha=1.0 if is_middle else 0.3)
    panels[1].axhline(runs[0]["bound_s"], color="#94a3b8", linestyle="--", linewidth=1)
    panels[1].set_ylabel("longest delay, s")
    panels[1].legend(frameon=False)
    panels[2].set_ylabel("subtasks")
    panels[2].set_xlabel("seconds")
    _save(figure, panels, path)


def draw_giannakopoulos_flink(path: Path) -> None:
    """The document's three diagrams, of our runs on Flink: load, TaskManagers, slow records; a column per policy."""
    runs = json.loads((MEASURED / "giannakopoulos-flink.json").read_text(encoding="utf-8"))["details"]
    figure, panels = _pyplot().subplots(
        3, len(runs), sharex=True, sharey="row", squeeze=False, figsize=(9, 4.2), layout="constrained"
    )
    for column, run in zip(panels.T, runs, strict=True):
        end_s = run["load"][-1][0]
        for steps in (run["task_managers"], run["slots"]):
            steps.append((end_s, steps[-1][1]))
        column[0].plot(*zip(*run["load"], strict=True), color="#2563eb", linewidth=1)
        column[1].step(
            *zip(*run["task_managers"], strict=True), color="#94a3b8", linestyle=":", where="post", label="there"
        )
        column[1].step(*zip(*run["slots"], strict=True), color="#0f766e", linewidth=1, where="post", label="in use")
        column[2].plot(*zip(*run["slow"], strict=True), color="#7c3aed", linewidth=1)
        column[2].axhline(run["bound"], color="#dc2626", linestyle="--", linewidth=1)
        for event in run["events"]:
            if event["kind"] == "mode-switched":
                column[2].axvline(event["at_s"], color="#64748b", linestyle=":", linewidth=1)
        column[0].set_title(run["policy"])
        column[2].set_xlabel("seconds")
    panels[1][0].legend(frameon=False, fontsize=8)
    for panel, label in zip(panels[:, 0], ("records/s", "TaskManagers", "slow records, s"), strict=True):
        panel.set_ylabel(label)
    _save(figure, panels.flat, path)


def draw_conttune(path: Path) -> None:
    """Measured capacities, those that models were fitted to and those that were requested, with the interval."""
    result = json.loads((MEASURED / "conttune.json").read_text(encoding="utf-8"))
    rows, known = result["rows"], result["details"]
    sizes = [row["parallelism"] for row in rows]
    figure, panel = _pyplot().subplots(figsize=(7, 3.2), layout="constrained")
    panel.fill_between(
        sizes, [row["from_per_s"] for row in rows], [row["to_per_s"] for row in rows], color="#cbd5e1", label="90 %"
    )
    panel.plot(sizes, [row["averaged_per_s"] for row in rows], color="#0f766e", label="averaged")
    panel.plot(
        [row["left_out"] for row in known],
        [row["measured_per_s"] for row in known],
        "o",
        color="#64748b",
        label="known",
    )
    panel.plot(sizes, [row["measured_per_s"] for row in rows], "x", color="#dc2626", label="requested")
    panel.set_xlabel("parallelism")
    panel.set_ylabel("records/s")
    panel.legend(frameon=False)
    _save(figure, [panel], path)


def draw_demeter(path: Path) -> None:
    """TaskManagers over time: as HPA had them, as it has them in the simulator, and autopilot there."""
    lines = json.loads((MEASURED / "demeter.json").read_text(encoding="utf-8"))["details"]
    apps = list(dict.fromkeys(line["app"] for line in lines))
    figure, panels = _pyplot().subplots(
        len(apps), 1, sharex=True, squeeze=False, figsize=(8, 4.4), layout="constrained"
    )
    for panel, app in zip(panels.flat, apps, strict=True):
        ours = iter(("-", ":", "-."))
        for line in (line for line in lines if line["app"] == app):
            colour, style = "#0f766e", "-"
            if "measured" in line["who"]:
                colour = "#94a3b8"
            elif "HPA" in line["who"]:
                colour, style = "#2563eb", "--"
            else:
                style = next(ours)
            panel.plot(*zip(*line["line"], strict=True), color=colour, linestyle=style, linewidth=1, label=line["who"])
        panel.set_ylabel(f"TaskManagers, {app}")
        panel.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    panels.flat[-1].set_xlabel("hours")
    _save(figure, panels.flat, path)


def draw_league(path: Path) -> None:
    """What policies of the league cost against how often they met the objective; nobody is far up and far left."""
    rows = json.loads((MEASURED / "league.json").read_text(encoding="utf-8"))["rows"]
    known = [row for row in rows if row["cost"] is not None and not row["policy"].startswith(("(", "mst-"))]
    figure, panel = _pyplot().subplots(figsize=(8, 4.2), layout="constrained")
    for row in known:
        ours = row["policy"] == "autopilot"
        panel.plot(
            row["cost"], row["kept %"], "D" if ours else "o", color="#0f766e" if ours else "#64748b", markersize=6
        )
        panel.annotate(
            row["policy"], (row["cost"], row["kept %"]), xytext=(6, -3), textcoords="offset points", fontsize=7
        )
    panel.set_xscale("log")
    panel.set_xticks([1, 1.5, 2, 3, 4, 5], ["1", "1.5", "2", "3", "4", "5"])
    panel.minorticks_off()
    panel.set_xlabel("instance-hours over those of the first, median of the contests whose objective it met")
    panel.set_ylabel("contests with the objective met, %")
    _save(figure, [panel], path)


def take_over(names: Sequence[str]) -> None:
    """Copy what the benchmarks measured, or those that are named, and with ``mst`` the models of applications."""
    MEASURED.mkdir(exist_ok=True)
    for result in TAKEN_FROM.glob("*.json"):
        if not names or result.stem in names:
            shutil.copy(result, MEASURED)
    if not names or "mst" in names:
        for model in (TAKEN_FROM / "mst").glob("*.json"):
            MODELS.mkdir(exist_ok=True)
            shutil.copy(model, MODELS)


def main() -> int:
    if "--benchmarks" in sys.argv[1:]:
        take_over([argument for argument in sys.argv[1:] if not argument.startswith("--")])
    pages = sorted(DOCS.rglob("*.md"))
    filled = {page: with_tables(page) for page in pages}
    stale = [page for page, text in filled.items() if text != page.read_text(encoding="utf-8")]
    if "--check" in sys.argv[1:]:
        for page in stale:
            sys.stderr.write(f"{page.relative_to(DOCS.parent)} is out of date: run make docs\n")
        return 1 if stale else 0
    for page in stale:
        page.write_text(filled[page], encoding="utf-8")
    for policy in policy_names():
        draw(policy, DOCS / "images" / "policies" / f"{policy}.svg")
    draw_fidelity(DOCS / "images" / "fidelity.svg")
    if (MEASURED / "mst.json").exists():
        draw_mst(DOCS / "images" / "mst.svg")
    draw_kafka_load(DOCS / "images" / "kafka-load.svg")
    draw_conttune(DOCS / "images" / "conttune.svg")
    draw_russo(DOCS / "images" / "russo-table-1.svg")
    draw_demeter(DOCS / "images" / "demeter.svg")
    draw_league(DOCS / "images" / "league.svg")
    for name, draw_flink in (
        ("flink-bottleneck", draw_flink_bottleneck),
        ("giannakopoulos-flink", draw_giannakopoulos_flink),
    ):
        if (MEASURED / f"{name}.json").exists():
            draw_flink(DOCS / "images" / f"{name}.svg")
    for scenario in LIVE:
        draw_live(scenario, DOCS / "images" / f"{scenario}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
