"""The package as a whole: its version, its weight when imported, its import contracts."""

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import headgate

ROOT = Path(__file__).parents[1]
PURE = ("core", "policies", "rules", "forecast")
"""The modules of local that may import Spark."""


def run(*arguments: str) -> str:
    """Run the environment's Python and return what it printed."""
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_installed_version_is_the_declared_one() -> None:
    assert importlib.metadata.version("headgate") == headgate.__version__


def test_the_command_prints_the_version() -> None:
    assert run("-c", "from headgate.cli import main; main()", "version") == headgate.__version__


@pytest.mark.parametrize("heavy", ["pyspark", "plotly", "pandas", "sqlalchemy", "typer"])
def test_importing_headgate_does_not_import(heavy: str) -> None:
    assert run("-c", f"import sys, headgate; print({heavy!r} in sys.modules)") == "False"


def test_every_pure_package_is_under_the_contract_of_purity() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (sources,) = [c["source_modules"] for c in contracts if c["name"].startswith("The pure packages")]
    existing = {f"headgate.{name}" for name in PURE if (ROOT / "src/headgate" / name).is_dir()}
    assert existing <= set(sources), "drop the `.**` in pyproject.toml: the package exists now"


def test_of_local_only_the_package_for_spark_sessions_may_import_spark() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (sources,) = [c["source_modules"] for c in contracts if c["name"].startswith("Only the modules of")]
    packages = {path.parent.name for path in (ROOT / "src/headgate/local").glob("*/__init__.py")} - {"spark"}
    listed = {source.removeprefix("headgate.local.") for source in sources if source.startswith("headgate.local.")}
    assert listed == {"*"} | {f"{name}.**" for name in packages}, "list the package in pyproject.toml"
