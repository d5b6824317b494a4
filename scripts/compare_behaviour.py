"""Compare what this tree and an earlier revision do, and print every difference.

    .venv/bin/python scripts/compare_behaviour.py REVISION [--quick]

Both trees run the same commands: a simulation of every policy on several loads, jobs and seeds, with the journal's
explanation of every decision; the other commands that print JSON; and the schemas of the journal and of the service's
interface. Then each runs its own tests of documents and commands, and the messages of all errors that these expect are
compared as sets, because tests may have been renamed since. ``--quick`` simulates two loads with one seed.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOADS = {
    "sine": "sine:mean=50,amplitude=40,period=30m",
    "spike": "spike:base=20,peak=120,at=20m,width=10m",
    "ramp": "ramp:from=10,to=140,over=40m",
    "noise": "sine:mean=60,amplitude=30,period=1h | noise 20% every 30s seed 4",
}
"""Loads for jobs whose instances process 10 records/s each."""
SEEDS = (1, 2)
QUICK = (("sine", "spike"), (1,))
"""Loads and seeds of a quick comparison."""
JOBS: dict[str, list[str]] = {
    "queue": ["--model", "queue"],
    "micro-batch": ["--model", "micro-batch", "--readings", "spark"],
}
NAMED_RUNS = ("rouaux-5.2.2", "rouaux-5.2.4", "rouaux-5.2.7", "russo-table-1", "conttune", "imai-fig-10", "azimi-3")
TESTS = (
    *("tests/rules", "tests/service/test_config.py", "tests/pipelines/test_reading.py", "tests/lab/experiments"),
    *("tests/runtime/test_settings_file.py", "tests/runtime/test_objective_file.py", "tests/cli"),
)
ADDED = ("severity",)
"""Keys of decisions and events that came since; they don't count as another result."""
MESSAGES = "HEADGATE_MESSAGES"
"""Environment variable: the file to which this module, as a plugin of pytest, adds the message of each error."""


def main(revision: str, *options: str) -> int:
    """Print the differences between this tree and the revision; return 1 if there are any."""
    with tempfile.TemporaryDirectory() as scratch:
        before = Path(scratch) / "before"
        subprocess.run(["git", "worktree", "add", "--detach", before, revision], cwd=ROOT, check=True)
        try:
            with ThreadPoolExecutor(2) as pool:
                old, new = pool.map(lambda tree: run_tree(tree, *options), (before, ROOT))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", before], cwd=ROOT, check=True)
    return report(old, new)


def report(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Print how many results are equal, and each distinct changed line with the number of places that have it."""
    differences = 0
    for kind, after in new.items():
        before = old[kind]
        names = list(before | after)
        changed = [name for name in names if before.get(name) != after.get(name)]
        differences += len(changed)
        print(f"== {kind}: {len(names) - len(changed)} of {len(names)} the same")
        lines: Counter[str] = Counter()
        for name in changed:
            if kind in ("runs", "messages"):
                lines[("- " if name in before else "") + ("+ " if name in after else "") + name] += 1
                continue
            texts = (json.dumps(tree.get(name), indent=1).splitlines() for tree in (before, after))
            for line in list(difflib.unified_diff(*texts, lineterm="", n=0))[2:]:
                if not line.startswith("@@"):
                    lines[re.sub(r"\d[\d.,]*", "#", line)] += 1
        for line, count in sorted(lines.items(), key=lambda item: item[0].lstrip("+- ")):
            print(f"{count:6} {line[:300]}")
    return 1 if differences else 0


def run_tree(tree: Path, *options: str) -> dict[str, Any]:
    """Return all results of a tree, by kind and name, from processes that import that tree."""
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{ROOT / 'scripts'}", "COLUMNS": "120"}
    with tempfile.TemporaryDirectory() as folder:
        results, messages = Path(folder) / "results.json", Path(folder) / "messages"
        command = [sys.executable, __file__, "--results", str(results), *options]
        subprocess.run(command, cwd=folder, env=environment, check=True)
        messages.touch()
        tests = [test for test in TESTS if (tree / test).exists()]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "compare_behaviour", "-m", "not live and not browser"]
        with (Path(folder) / "tests.log").open("w") as log:
            subprocess.run(
                [*command, *tests], check=False, cwd=tree, env=environment | {MESSAGES: str(messages)}, stdout=log
            )
        found = set(messages.read_text(encoding="utf-8").splitlines())
        return json.loads(results.read_text()) | {"messages": dict.fromkeys(sorted(found), 1)}


def pytest_configure() -> None:
    """Write down the message of every error that a test expects; called by pytest."""
    from _pytest import raises

    leave = raises.RaisesExc.__exit__

    def recorded(self: Any, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if error is not None:
            message = re.sub(r"/\S*?(?=[\w.-]*(?:[:\s]|$))", "", str(error)).replace("\n", " ⏎ ")
            with Path(os.environ[MESSAGES]).open("a", encoding="utf-8") as file:
                file.write(f"{message}\n")
        return bool(leave(self, kind, error, trace))

    raises.RaisesExc.__exit__ = recorded


def all_results(*, is_quick: bool) -> dict[str, Any]:
    """Return the results of the tree that is imported here."""
    policies = [row["name"] for row in json.loads(run("policies", "--json"))]
    printed = {
        "policies": run("policies", "--json"),
        "forecasters": run("forecasters", "--json"),
        "engines": run("engines", "--json"),
        **{f"policies show {name}": run("policies", "show", name, "--json") for name in policies},
        **{f"lab run {name}": run("lab", "run", name, "--json") for name in NAMED_RUNS},
    }
    simulated = {}
    for name, arguments in simulations(policies, *(QUICK if is_quick else (LOADS, SEEDS))):
        print(name, file=sys.stderr)
        result = run("simulate", *arguments, "--json", "--journal", "run.sqlite")
        story = run("explain", "run.sqlite", "--all", "--json")
        if name.endswith("sine queue 1"):
            printed[f"explain {name}"] = story
            printed[f"simulate {name}"] = result
            printed[f"replay {name}"] = run("replay", "run.sqlite", "--policy", "hpa", "--json")
        simulated[name] = hashlib.sha256(f"{decisions(story)}{totals(result)}".encode()).hexdigest()
        if not printed.get("journal"):
            printed["journal"] = schema_of("run.sqlite")
        for path in Path().glob("run.sqlite*"):
            path.unlink()
    return {"runs": simulated, "printed": {name: parsed(text) for name, text in printed.items()}, "interface": api()}


def simulations(policies: Iterable[str], loads: Iterable[str], seeds: Iterable[int]) -> Iterator[tuple[str, list[str]]]:
    """Yield a name and the arguments of each simulation."""
    for policy in policies:
        for load in loads:
            for model, options in JOBS.items():
                for seed in seeds:
                    yield (
                        f"{policy} {load} {model} {seed}",
                        [
                            *("--policy", policy, "--workload", LOADS[load], "--service-rate", "10", "--seconds", "1h"),
                            *("--objective", "latency p95 < 10s", "--min", "1", "--max", "16", "--startup", "30s"),
                            *("--seed", str(seed), "--price", "0.25", *options),
                        ],
                    )


def run(*arguments: str) -> str:
    """Run a command of the imported tree in this process, and return what it printed and its exit code."""
    sys.argv = ["headgate", *arguments]
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            runpy.run_module("headgate", run_name="__main__")
        except SystemExit as ended:
            code = int(ended.code or 0)
    return printed.getvalue() if not code else f"exit code {code}: {printed.getvalue()}"


def decisions(story: str) -> str:
    """Return sizes and numbers of each decision of an explanation; wording may have changed."""
    if story.startswith("exit code"):
        return story
    return json.dumps(without_text(json.loads(story)), sort_keys=True)


def totals(result: str) -> str:
    """Return the numbers of a simulation's result."""
    return result if result.startswith("exit code") else json.dumps(without_text(json.loads(result)), sort_keys=True)


def without_text(value: Any) -> Any:
    """Return JSON data with the texts left out, apart from short codes."""
    if isinstance(value, dict):
        return {key: without_text(item) for key, item in value.items() if key not in ADDED}
    if isinstance(value, list):
        return [without_text(item) for item in value]
    return value if not isinstance(value, str) or re.fullmatch(r"[\w.-]{1,40}", value) else "text"


def parsed(text: str) -> Any:
    """Return printed JSON as data, for a readable comparison."""
    try:
        return json.loads(text)
    except ValueError:
        return text.splitlines()


def schema_of(journal: str) -> str:
    """Return the tables of a journal."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(journal)) as database:
        return "\n".join(row[0] or "" for row in database.execute("SELECT sql FROM sqlite_master ORDER BY name"))


def api() -> dict[str, Any]:
    """Return the operations and shapes of the service's interface, without their descriptions."""
    from headgate.service.api import make_api
    from headgate.service.config import ServiceConfig
    from headgate.service.service import Service
    from headgate.service.store import open_store
    from headgate.testing.clock import FakeClock

    clock = FakeClock(0.0)
    with Service(ServiceConfig((), "sqlite://"), open_store("sqlite://", now=clock.now), clock) as service:
        document = make_api(service, clock.now).openapi()
    found = {f"{method} {path}": part for path, item in document["paths"].items() for method, part in item.items()}
    return {name: without_notes(part, document["components"]["schemas"]) for name, part in found.items()}


def without_notes(value: Any, shapes: dict[str, Any]) -> Any:
    """Return a part of an OpenAPI document without descriptions and names of functions, with its shapes in place."""
    if isinstance(value, dict):
        if (shape := value.get("$ref")) is not None:
            return without_notes(shapes[shape.rpartition("/")[2]], shapes)
        notes = ("description", "summary", "title", "operationId", "tags", "example", "examples")
        compared = {key: item for key, item in value.items() if key not in notes or isinstance(item, dict)}
        return {key: without_notes(item, shapes) for key, item in compared.items()}
    return [without_notes(item, shapes) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    if sys.argv[1:2] == ["--results"]:
        target = Path(sys.argv[2])
        target.write_text(json.dumps(all_results(is_quick="--quick" in sys.argv)))
    elif len(sys.argv) in (2, 3) and sys.argv[2:] in ([], ["--quick"]):
        sys.exit(main(*sys.argv[1:]))
    else:
        sys.exit(__doc__)
