"""The live view of a run as a moving picture: an SVG that plays what a terminal showed, from the run's journal.

``python scripts/live_view_picture.py run.db docs/images/live-view.svg`` takes the newest run of a journal, such as that
of ``make demo`` (``headgate-demo/journal.db``) or of ``examples/ten_lines_kafka.py``. Nothing is made up: readings and
decisions go through the view in the order in which they were written down. It shows the last frame where motion is
not wanted, and on paper.
"""

from __future__ import annotations

import io
import re
import sys
from bisect import bisect_left
from contextlib import closing
from pathlib import Path

from rich.console import Console

from headgate.cli.job_view import LiveJobView
from headgate.cli.live_view import RunHeading
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Observation, Role
from headgate.journal.writer import SqliteJournal

COLUMNS = 96
FRAMES = 30
PLAYS_S = 12.0
RESTS_S = 3.0
"""How long the last frame stays before it begins again."""

FRAME = (
    '<g class="frame" id="{unique_id}"><style>{styles}</style>{backgrounds}'
    '<g class="{unique_id}-matrix">{matrix}</g>{lines}</g>'
)
"""What rich fills in for one frame; its own form would fetch a font from another host."""
SIZE = "<!-- {terminal_width} {terminal_height} {char_height} -->"


def picture(journal: Path) -> str:
    """The newest run of a journal as an SVG that moves."""
    with closing(SqliteJournal.read(journal)) as reader:
        number, run = reader.runs()[-1]
        observations = reader.observations(run=number)
        acting = [decision for decision in reader.decisions(run=number) if decision.role is Role.ACTING]
    # A live decision has the time of its tick, and the reading it is made of is complete a moment later.
    times_s = [observation.at_s for observation in observations]
    decisions = {times_s[min(bisect_left(times_s, decision.at_s), len(times_s) - 1)]: decision for decision in acting}
    title = f"headgate · {run.job}"
    heading = RunHeading(
        title, run.policy, parse_objective(run.objective), observations[-1].at_s - observations[0].at_s
    )
    return _moving(list(_frames(heading, observations, decisions)))


def _frames(heading: RunHeading, observations: list[Observation], decisions: dict[float, Decision]) -> list[str]:
    console = Console(width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor", record=True)
    view = LiveJobView(console, heading)
    view.stage("running")
    last = len(observations) - 1
    wanted = {round(last * place / (FRAMES - 1)) for place in range(FRAMES)}
    frames = []
    for place, observation in enumerate(observations):
        view.tick(observation, decisions.get(observation.at_s))
        if place in wanted:
            console.print(view)
            frames.append(console.export_svg(code_format=SIZE + FRAME, unique_id=f"f{place}", clear=True))
    return frames


def _moving(frames: list[str]) -> str:
    sizes = [
        tuple(map(float, found.groups()))
        for frame in frames
        if (found := re.search(r"<!-- (\S+) (\S+) (\S+) -->", frame))
    ]
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes)
    font_px = sizes[0][2]
    whole_s = PLAYS_S + RESTS_S
    step_s = PLAYS_S / len(frames)
    styles = [
        f"text {{ font: {font_px}px 'Fira Code', 'DejaVu Sans Mono', Menlo, Consolas, monospace; }}",
        f".frame {{ visibility: hidden; animation: {whole_s:g}s step-end infinite; }}",
    ]
    for place in range(len(frames)):
        begins = 100 * place * step_s / whole_s
        ends = 100.0 if place == len(frames) - 1 else 100 * (place + 1) * step_s / whole_s
        after = "" if place == len(frames) - 1 else f" {ends:.3f}% {{ visibility: hidden; }}"
        before = "" if place == 0 else "0% { visibility: hidden; } "
        styles.append(f"@keyframes show{place} {{ {before}{begins:.3f}% {{ visibility: visible; }}{after} }}")
        styles.append(f".frame:nth-of-type({place + 1}) {{ animation-name: show{place}; }}")
    still = ".frame { animation: none; } .frame:last-of-type { visibility: visible; }"
    styles.append(f"@media (prefers-reduced-motion: reduce), print {{ {still} }}")
    body = "\n".join(re.sub(r"<!--.*?-->", "", frame) for frame in frames)
    box = f'x="-12" y="-12" width="{width + 24:g}" height="{height + 24:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 -12 {width + 24:g} {height + 24:g}" role="img">\n'
        f"<title>The live view of a run</title>\n<style>{''.join(styles)}</style>\n"
        f'<rect {box} rx="8" fill="#12161c"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python scripts/live_view_picture.py JOURNAL PICTURE.svg")
    Path(sys.argv[2]).write_text(picture(Path(sys.argv[1])), encoding="utf-8")
