"""The guides for extensions, followed from the page alone: each of them works as it is printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs/guides"
EXAMPLES = ROOT / "examples"


def blocks_of(guide: str, language: str) -> list[str]:
    """Return the code blocks of a guide."""
    return re.findall(rf"```{language}\n(.*?)```", (GUIDES / guide).read_text(encoding="utf-8"), re.DOTALL)


def run_python(code: str, *paths: Path) -> str:
    """Run a program that finds packages in the given folders first, and return what it prints."""
    found = os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": found},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_test(folder: Path, test: str) -> None:
    """Run a test of a guide in a folder of its own."""
    (folder / "test_guide.py").write_text(test, encoding="utf-8")
    run_python(f"import pytest; raise SystemExit(pytest.main(['-q', '-c', '/dev/null', {str(folder)!r}]))", folder)


def patched(text: str, patch: str) -> str:
    """Return a text with the added lines of a patch, each after the line that the patch shows before it."""
    before, added = "", ""
    for line in [*patch.splitlines(), " "]:
        if line.startswith("+"):
            added += f"{line[1:]}\n"
            continue
        if added:
            assert text.count(before) == 1, before
            text = text.replace(before, before + added)
        before, added = f"{line[1:]}\n", ""
    return text


def copy_package(folder: Path) -> Path:
    """Return the folder of a copy of Headgate that a test may change."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "src/headgate"


@pytest.mark.parametrize(
    ("guide", "package", "module"),
    [("own-policy.md", "half_full", "half_full.py"), ("own-engine.md", "size_file", "size_file.py")],
)
def test_a_guide_shows_the_package_of_its_example(guide: str, package: str, module: str) -> None:
    assert blocks_of(guide, "python")[0] == (EXAMPLES / package / module).read_text(encoding="utf-8")
    assert blocks_of(guide, "toml")[0] == (EXAMPLES / package / "pyproject.toml").read_text(encoding="utf-8")


def test_a_policy_is_found_where_its_package_is_installed(tmp_path: Path) -> None:
    # Built where it leaves nothing behind; the build tools are installed already.
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, *install, "--target", str(tmp_path), str(EXAMPLES / "half_full")]
    subprocess.run(command, check=True, timeout=100)
    used = (
        "from typer.testing import CliRunner\nfrom headgate.cli.app import app\n"
        "command = ['simulate', '--policy', 'half-full', '--set', 'target=0.7', '--workload', 'constant:50', "
        "'--service-rate', '10', '--seconds', '10m']\n"
        "for arguments in (['policies', 'show', 'half-full'], command):\n"
        "    done = CliRunner().invoke(app, arguments)\n"
        "    assert done.exit_code == 0, done.output\n"
        "    print(done.output)\n"
    )
    printed = run_python(used, tmp_path)
    assert "The busy share to aim for." in printed
    assert "% busy: " in printed


def test_a_policy_passes_the_test_of_its_guide(tmp_path: Path) -> None:
    policy, test = blocks_of("own-policy.md", "python")
    (tmp_path / "half_full.py").write_text(policy, encoding="utf-8")
    run_test(tmp_path, test)


def test_a_policy_becomes_a_part_of_headgate_as_one_file(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (policy, _), (patch,) = blocks_of("own-policy.md", "python"), blocks_of("own-policy.md", "diff")
    removed, replaced = (line[1:] for line in patch.splitlines()[:2])
    assert removed in policy
    policy = policy.replace(removed, replaced).replace("class HalfFull(", "@register\nclass HalfFull(")
    (package / "policies/half_full.py").write_text(policy, encoding="utf-8")
    check = "from headgate.testing import check_policy; import headgate; check_policy('half-full')"
    run_python(f"{check}; print(headgate.__file__)", tmp_path / "src")


def test_a_forecaster_passes_the_test_of_its_guide(tmp_path: Path) -> None:
    forecaster, test = blocks_of("own-forecaster.md", "python")
    (tmp_path / "last_value.py").write_text(forecaster, encoding="utf-8")
    run_test(tmp_path, test)


def test_a_forecaster_becomes_a_part_of_headgate_as_one_file(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    forecaster = blocks_of("own-forecaster.md", "python")[0].replace("class LastValue(", "@register\nclass LastValue(")
    forecaster = f"from headgate.forecast.base import register\n{forecaster}"
    (package / "forecast/last_value.py").write_text(forecaster, encoding="utf-8")
    used = (
        "from headgate.forecast import forecaster_names, make_forecaster\n"
        "assert 'last-value' in forecaster_names()\n"
        "print(make_forecaster('last-value').name)\n"
    )
    assert run_python(used, tmp_path / "src").split() == ["last-value"]


def test_an_engine_passes_the_test_of_its_guide(tmp_path: Path) -> None:
    engine, test = (block for block in blocks_of("own-engine.md", "python") if "autoscale_engine" not in block)
    (tmp_path / "size_file.py").write_text(engine, encoding="utf-8")
    run_test(tmp_path, test)


SERVE = """
import re, sys, urllib.request
from headgate.core.objective import parse_objective
from headgate.service.api import make_api
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig
from headgate.service.service import Service
from headgate.service.serving import ApiServer
from headgate.service.store import open_store

operators = (OperatorSpec("parse", 1, 8), OperatorSpec("count", 1, 4))
job = JobSpec("clicks", operators, parse_objective("latency p95 < 10s"))
with Service(ServiceConfig((job,)), open_store("sqlite://")) as service, ApiServer(make_api(service)) as server:
    service.fleet.job("clicks").tick()
    with urllib.request.urlopen(server.url + "/sizes", timeout=30) as answer:
        print(answer.read().decode())
"""


def test_a_page_appears_in_the_dashboard(tmp_path: Path) -> None:
    pages = copy_package(tmp_path) / "service/pages"
    (view,), (template,) = blocks_of("own-page.md", "python"), blocks_of("own-page.md", "html")
    (pages / "views/sizes.py").write_text(view, encoding="utf-8")
    (pages / "templates/sizes.html").write_text(template, encoding="utf-8")
    for file, patch in zip(("routes.py", "templates/base.html"), blocks_of("own-page.md", "diff"), strict=True):
        (pages / file).write_text(patched((pages / file).read_text(encoding="utf-8"), patch), encoding="utf-8")
    page = run_python(SERVE, tmp_path / "src")
    assert '<a href="/sizes" aria-current="page">Sizes</a>' in page
    assert page.count('<a href="/jobs/clicks">clicks</a>') == 2
    assert re.search(r"<td>count</td><td>[^<]+</td>", page)
