"""What the docstrings show runs, and what packages export is there."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import headgate.core
import headgate.forecast
import headgate.journal
import headgate.lab.experiments
import headgate.lab.measures
import headgate.lab.tuning
import headgate.policies
import headgate.policies.blocks
import headgate.policies.capacity
import headgate.policies.frame
import headgate.policies.pilot
import headgate.policies.planning
import headgate.policies.q_values
import headgate.simulation
import headgate.testing
import headgate.workloads

PACKAGES = (
    headgate.core,
    headgate.forecast,
    headgate.journal,
    headgate.lab,
    headgate.lab.experiments,
    headgate.lab.measures,
    headgate.lab.tuning,
    headgate.policies,
    headgate.policies.capacity,
    headgate.policies.blocks,
    headgate.policies.frame,
    headgate.policies.pilot,
    headgate.policies.planning,
    headgate.policies.q_values,
    headgate.simulation,
    headgate.testing,
    headgate.workloads,
)
MODULES = [
    f"{package.__name__}.{module.name}" for package in PACKAGES for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize("name", ["headgate", "headgate.forecast", "headgate.policies", "headgate.testing"])
def test_a_package_exports_exactly_what_it_says(name: str) -> None:
    package = importlib.import_module(name)
    named = list(package.__all__)
    assert len(named) == len(set(named))
    assert all(hasattr(package, key) for key in named)
    ours = {
        key
        for key, value in vars(package).items()
        if not key.startswith("_") and getattr(value, "__module__", "").startswith("headgate")
    }
    assert ours <= set(named), "what a package imports for its users is named in __all__"
