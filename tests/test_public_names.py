"""The names that plug-in authors import: what a package exports changes only together with this list."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
AUTHORS_FILES = (
    *("README.md", "docs/journal.md"),
    *(f"docs/guides/{name}.md" for name in ("kafka", "forecasting", "own-engine", "own-forecaster", "own-policy")),
    *("examples/quickstart.ipynb", *(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.py"))),
)
LIGHT = ("headgate", "headgate.apps", "headgate.engines", "headgate.journal", "headgate.local")
HEAVY = ("pyspark", "py4j", "sqlalchemy", "pandas", "plotly", "fastapi", "numba", "scipy")
PUBLIC = {
    "headgate": [
        "Autoscaler",
        "By",
        "Client",
        "CostLimit",
        "Explanation",
        "HeadgateError",
        "LatencySlo",
        "LocalCluster",
        "LocalKafka",
        "ManagedRun",
        "Objective",
        "Plan",
        "Prometheus",
        "Restarts",
        "SlowShareSlo",
        "ThroughputSlo",
        "__version__",
        "autoscale",
        "autoscale_engine",
        "explain",
        "join",
        "parse_objective",
        "parse_workload",
        "run",
        "simulate",
    ],
    "headgate.apps": ["LoadSource", "working"],
    "headgate.local": ["LocalKubernetes", "LocalYarn", "find_connector"],
    "headgate.forecast": [
        "JSON",
        "EvenGrid",
        "FloatArray",
        "Forecast",
        "Forecaster",
        "ForecasterBase",
        "PositiveSeconds",
        "Seconds",
        "Settings",
        "Share",
        "brought_forecasters",
        "forecaster_class",
        "forecaster_names",
        "make_forecaster",
        "register",
    ],
    "headgate.engines": [
        "Answer",
        "Batch",
        "Decision",
        "Engine",
        "EngineBase",
        "EngineError",
        "EngineGoneError",
        "Instances",
        "Instant",
        "Observation",
        "Outcome",
        "Receipt",
        "Sample",
        "Sizing",
        "Startup",
        "Subscribable",
        "Topology",
        "UnsupportedEngineError",
        "Verdict",
    ],
    "headgate.journal": [
        "JSON",
        "Decision",
        "Event",
        "Instant",
        "Journal",
        "JournalError",
        "MemoryJournal",
        "Observation",
        "PostgresJournal",
        "ReadableJournal",
        "Receipt",
        "Retention",
        "Run",
        "Runs",
        "SqliteJournal",
        "Thinned",
        "UnwritableJournalError",
        "last_sizes",
    ],
    "headgate.policies": [
        "Action",
        "ActionResult",
        "Batch",
        "Choice",
        "Context",
        "EXPLORATIONS",
        "GuardSettings",
        "INITIALISERS",
        "Instances",
        "Instant",
        "JSON",
        "NewState",
        "Number",
        "Objective",
        "OperatorPolicy",
        "Policy",
        "PolicyBase",
        "PolicyMaker",
        "PositiveSeconds",
        "PricedSize",
        "Proposal",
        "ProposedStep",
        "REWARDS",
        "Region",
        "STRATEGIES",
        "Sample",
        "Seconds",
        "Settings",
        "Share",
        "StateTable",
        "Target",
        "Topology",
        "Window",
        "brought_policies",
        "busy_share",
        "hold",
        "make_policy",
        "policy_class",
        "policy_from",
        "policy_names",
        "reading_of",
        "readings_over",
        "register",
        "startup_s",
    ],
    "headgate.testing": [
        "ADAPTOR_CHECKS",
        "ENGINE_CHECKS",
        "FORECASTER_CHECKS",
        "HOSTILE_STREAMS",
        "JOURNAL_CHECKS",
        "POLICY_CHECKS",
        "RETENTION_CHECKS",
        "WRITER_CHECKS",
        "ContractViolation",
        "FakeClock",
        "check_adaptor",
        "check_engine",
        "check_forecaster",
        "check_hostile_readings",
        "check_journal",
        "check_policy",
        "last_target",
        "named_forecaster",
        "named_policy",
    ],
}


@pytest.mark.parametrize("package", PUBLIC)
def test_a_package_exports_its_public_names(package: str) -> None:
    module = import_module(package)
    assert sorted(module.__all__) == sorted(PUBLIC[package])
    assert all(hasattr(module, name) for name in PUBLIC[package])
    assert not hasattr(module, "no_such_name")


@pytest.mark.parametrize("package", LIGHT)
def test_importing_a_package_loads_nothing_heavy(package: str) -> None:
    code = f"import sys, {package}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


@pytest.mark.parametrize("name", AUTHORS_FILES)
def test_examples_for_authors_import_nothing_deeper(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    imported = re.findall(r"^ *\"?(?:from|import) (headgate[\w.]*)", text, re.MULTILINE)
    assert set(imported) <= PUBLIC.keys()
