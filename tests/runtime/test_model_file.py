"""The model file of headgate mst, as the policies get it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.lab.mst import Measurement, MstPlan, fitted
from headgate.policies import Context
from headgate.runtime.model_file import measured_job, policy_with_files
from headgate.runtime.simulate import simulate
from headgate.workloads import parse_workload
from tests.core.building import JOB

CONTEXT = Context(parse_objective("throughput >= 95%"), JOB)


def saved(folder: Path, **changes: Any) -> str:
    """A file as headgate mst writes it, of a job whose executors sustain 100 records/s each."""
    plan = MstPlan((1, 2, 4), validation=(3,))
    measured = [
        Measurement(size, (100.0 * size,) * 5, (99.0 * size, 101.0 * size) if size != 4 else ()) for size in plan.sizes
    ]
    file = folder / "mst.json"
    file.write_text(json.dumps(fitted(plan, measured, "4.1").to_json() | changes))
    return str(file)


@pytest.mark.parametrize("name", ["mst-0", "mst-7", "quantile"])
def test_a_policy_begins_with_what_was_measured(name: str, tmp_path: Path) -> None:
    settings: Any = policy_with_files(name, CONTEXT, {"model_file": saved(tmp_path)}).settings
    # Four executors did not settle, and are left out.
    assert settings.training == ((1, 99.0), (1, 101.0), (2, 198.0), (2, 202.0))
    assert settings.validation == ((3, 297.0), (3, 303.0))


def test_a_run_sizes_by_the_model_from_its_first_block_on(tmp_path: Path) -> None:
    result = simulate(
        "mst-0",
        parse_workload("constant:350"),
        objective=CONTEXT.objective.within(1, 10),
        settings={"model_file": saved(tmp_path)},
        service_rate_per_s=100.0,
        seconds=60.0,
    )
    assert result.decisions[0].targets == {"job": 4}


def test_a_simulated_job_may_be_as_fast_as_one_that_was_measured(tmp_path: Path) -> None:
    rate_per_s, model = measured_job(Path(saved(tmp_path)))
    assert rate_per_s == pytest.approx(100.0, rel=0.02)
    assert [count for count, _ in model.speed_up] == [1, 2, 3, 4]
    assert model.efficiency(2) == pytest.approx(1.0, rel=0.02)


def test_a_file_without_a_curve_describes_no_job(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not say what one instance gets through"):
        measured_job(Path(saved(tmp_path, curve=[])))
    with pytest.raises(InputError, match=r"is damaged: KeyError\('executors'\)"):
        measured_job(Path(saved(tmp_path, curve=[{}])))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"model file '.*missing.json' cannot be read: no such file"),
        ("{", r"model file '.*' is no JSON: "),
        ("[]", r"has version None; version 1 is needed"),
        ('{"version": 2}', r"has version 2; version 1 is needed"),
        ('{"version": 1}', r"is damaged: KeyError\('measurements'\); it is written by headgate mst --save FILE"),
        ('{"version": 1, "measurements": [{"use": "fun"}]}', r"is damaged: KeyError\('fun'\)"),
        ('{"version": 1, "measurements": []}', r"has no measurement that settled; at least one is needed"),
    ],
)
def test_an_unusable_file_is_refused_in_one_sentence(content: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / ("missing.json" if content is None else "mst.json")
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=message):
        policy_with_files("mst-7", CONTEXT, {"model_file": str(file)})


def test_a_file_and_measurements_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="settings training and model_file are both given"):
        policy_with_files("mst-7", CONTEXT, {"model_file": saved(tmp_path), "training": "1:95"})


def test_a_policy_without_such_a_file_does_not_know_the_setting(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown setting of reactive"):
        policy_with_files("reactive", CONTEXT, {"model_file": saved(tmp_path)})
