"""How fast a job is, as users say it; above all that measured applications go by their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.cli.options import service_rate_options
from headgate.core.errors import InputError
from headgate.lab.experiments.document import read_experiment
from headgate.lab.tuning.plan import job_of
from headgate.runtime import model_file as service_rate
from headgate.runtime.model_file import known_models, parse_service, parse_service_rate
from headgate.simulation.micro_batch import MicroBatch, ServiceModel


def model_file(rate_per_s: float) -> str:
    """A model file of a job of which two get through half as much again as one."""
    curve = [{"executors": size, "throughput_per_s": rate_per_s * (1 + size) / 2} for size in (1, 2)]
    return json.dumps({"version": 1, "curve": curve})


@pytest.fixture(autouse=True)
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two applications were measured, and there is a file that is called like one of them."""
    models = tmp_path / "models"
    models.mkdir()
    for name, rate_per_s in (("grep", 400.0), ("nexmark-5", 80.0)):
        (models / f"{name}.json").write_text(model_file(rate_per_s))
    (tmp_path / "grep").write_text(model_file(7.0))
    monkeypatch.setattr(service_rate, "_MODELS", models)
    monkeypatch.chdir(tmp_path)


BENT = MicroBatch(speed_up=((1, 1.0), (2, 1.5)))


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("12.5", 12.5),
        ("linear:rate=10", ServiceModel("linear", 10.0)),
        ("nexmark-5", (80.0, BENT)),
        ("grep", (400.0, BENT)),
        ("./grep", (7.0, BENT)),
        ("models/grep.json", (400.0, BENT)),
    ],
)
def test_a_speed_is_a_number_a_model_a_name_or_a_file(text: str, speed: object, tmp_path: Path) -> None:
    assert parse_service_rate(text, None, "10s", tmp_path) == speed


@pytest.mark.parametrize(
    ("text", "model", "startup", "message"),
    [
        ("gerp", None, None, "'gerp' is neither .* or an application that was measured .grep, nexmark-5.[.]$"),
        ("grep", "queue", None, "--model queue does not go with the measured application grep; it is of a micro-batch"),
        ("./grep", "queue", None, "--model queue does not go with the model file ./grep; it is of a micro-batch"),
        ("linear:rate=1,startup=1s", None, "2s", "--startup 2s does not go with startup= in the service model linear"),
    ],
)
def test_an_invalid_speed_is_refused_in_one_sentence(
    text: str, model: str | None, startup: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        parse_service_rate(text, model, startup)


def test_a_service_that_is_not_known_is_answered_with_one_that_is() -> None:
    with pytest.raises(InputError, match=r"unknown service model 'nexmark5', did you mean 'nexmark-5'\? Known: grep, "):
        parse_service("nexmark5")
    with pytest.raises(InputError, match="says no more than its name"):
        parse_service("linear")


def test_the_simulator_the_lab_and_its_tuning_know_the_same_names(tmp_path: Path) -> None:
    assert service_rate_options("nexmark-5", None, "30s", 10) == {"service_rate_per_s": 80.0, "model": BENT}
    tuned = job_of("nexmark-5", "30s", None, "spark", tmp_path)
    file = tmp_path / "my.yaml"
    file.write_text(
        "version: 1\nworkloads: [constant:20]\njobs:\n  - {service: nexmark-5, startup: 30s}\npolicies: [hpa]\n"
        "objectives: ['latency p95 < 10s']\nseconds: 10m\n"
    )
    (read,) = read_experiment(file).jobs
    assert read == tuned
    assert (read.name, read.rate_per_s, read.startup_s) == ("nexmark-5", 80.0, 30.0)
    assert read.batches == {"speed_up": [[1, 1.0], [2, 1.5]]}


def test_every_model_that_comes_with_headgate_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for name in known_models():
        assert isinstance(parse_service(name), tuple), name
