"""Measuring MST: what is requested, what is fitted, and the file that is left. The measuring itself is tested live."""

from __future__ import annotations

import json

import pytest

from headgate.core.errors import EngineError, InputError, UnknownNameError
from headgate.lab.mst import Measurement, MstPlan, MstResult, fitted
from headgate.policies.capacity.mst import MstKind


def measured(size: int, throughput: float) -> Measurement:
    """Four batches that agree about a throughput, after one that was slow."""
    agreeing = tuple(throughput * factor for factor in (0.99, 1.0, 1.01, 1.0))
    return Measurement(size, (0.5 * throughput, *agreeing), agreeing)


def result(*, validation: tuple[int, ...] = ()) -> MstResult:
    """A job that loses a tenth of an executor to each further one: 100, 180, 240, 280."""
    plan = MstPlan((1, 2, 3, 4), validation)
    sizes = sorted((*plan.executors, *validation))
    return fitted(plan, [measured(size, 100 * size - 10 * size * (size - 1)) for size in sizes], "4.0.0")


def test_both_models_are_fitted_and_the_nearer_one_is_chosen() -> None:
    found = result()
    assert [model.kind for model in found.models] == list(MstKind)
    assert found.selected.kind is MstKind.QUADRATIC
    for row, expected in zip(found.rows(), (100, 180, 240, 280), strict=True):
        assert row["measured_per_s"] == pytest.approx(expected)
        assert row["model_2_per_s"] == pytest.approx(expected, rel=0.02)


def test_the_model_file_is_plain_json_with_samples_models_and_their_uncertainty() -> None:
    file = json.loads(json.dumps(result(validation=(5,)).to_json(), allow_nan=False))
    assert file["version"] == 1
    assert file["app"]["name"] == "steady-job"
    assert file["settled_when"] == {"last": 5, "least": 4, "tolerance": 0.05}
    assert [row["use"] for row in file["measurements"]] == ["training"] * 4 + ["validation"]
    assert [len(row["agreeing_per_s"]) for row in file["measurements"]] == [4] * 5
    assert [row["model"] for row in file["models"]] == [1, 2]
    assert all(row["deviation_per_s"] > 0 for row in file["models"])
    assert file["selected"] in (1, 2)
    assert [row["executors"] for row in file["curve"]] == [1, 2, 3, 4, 5]


def test_the_plot_has_what_was_measured_both_curves_and_a_band() -> None:
    data, _ = result().figure()
    assert [trace["name"] for trace in data] == ["model 2 ± 2 σ", "model 1", "model 2, chosen", "measured"]


def test_the_size_at_which_the_models_differ_most_is_named() -> None:
    found = fitted(MstPlan((1, 2, 4)), [measured(size, 100.0 * size - 50) for size in (1, 2, 4)], "4.0.0")
    size, share = found.next_size() or (0, 0.0)
    assert (size, found.to_json()["next_executors"]) == (8, 8)
    assert share > 0.1
    assert "next size worth measuring: 8 executors" in found.next_size_text()
    assert found.next_size_text().endswith("add --validate 8")


def test_models_that_agree_need_no_other_size() -> None:
    linear = fitted(MstPlan((1, 2, 4)), [measured(size, 100.0 * size) for size in (1, 2, 4)], "4.0.0")
    assert linear.next_size() is None
    assert linear.next_size_text().startswith("no other size is needed")


def test_a_size_that_did_not_settle_is_left_out_and_two_are_needed() -> None:
    unsettled = Measurement(4, (10.0, 20.0, 40.0), ())
    plan = MstPlan((1, 2, 4))
    found = fitted(plan, [measured(1, 100), measured(2, 190), unsettled], "4.0.0")
    assert found.rows()[-1]["measured_per_s"] is None
    with pytest.raises(EngineError, match=r"the throughput of 1 of 1,2,4 executors is known; at least 2"):
        fitted(plan, [measured(1, 100), Measurement(2, (), ()), unsettled], "4.0.0")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"executors": (2,)}, "executors 2 are too few"),
        ({"executors": ()}, "executors .none. are not allowed"),
        ({"executors": (1, 0)}, "executors 1,0 are not allowed"),
        ({"executors": (1, 2), "validation": (2,)}, "executors 1,2,2 are not allowed"),
        ({"executors": (1, 2), "cost_s": 0.0}, "cost_s 0.0 is not allowed"),
        ({"executors": (1, 2), "partitions": 0}, "partitions 0 is not allowed"),
    ],
)
def test_a_plan_that_cannot_be_measured_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MstPlan(**changes)  # type: ignore[arg-type]


def test_an_application_that_is_not_known_is_answered_with_one_that_is() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'steady-job'"):
        MstPlan((1, 2), app="steady-jb")
