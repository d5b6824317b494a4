"""A job on YARN: it grows and shrinks, survives a killed executor, and says what a full queue does not give."""

from __future__ import annotations

import pytest

from headgate.core.errors import HeadgateError
from headgate.local.spark.yarn import yarn_jars
from tests.live.yarn_job import Course, run_there

QUICK = {"idle_for_s": 6.0, "drain_within_s": 15.0}
"""Settings of the policy, so that a test need not wait for minutes."""
pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True, scope="module")
def _jars() -> None:
    try:
        yarn_jars()
    except HeadgateError as error:
        pytest.skip(str(error))


def test_a_job_grows_survives_a_kill_and_shrinks_without_losing_a_record() -> None:
    load = "spike:base=15,peak=90,at=5s,width=40s"
    found = run_there(Course(slots=3, most=3, workload=load, seconds=75.0, settings=QUICK, kills=True))
    assert found["is_exact"], found
    assert found["most_ready"] == 3
    assert found["killed"]
    assert found["last"] == [1, 1]
    assert found["left_over"] == []


def test_a_full_queue_gives_what_there_is_and_the_plan_follows() -> None:
    wants_five = Course(
        slots=2, most=5, workload="constant:15", seconds=60.0, policy="static", settings={"instances": 5}, shrinks=False
    )
    found = run_there(wants_five)
    assert found["is_exact"], found
    assert found["most_ready"] == 2
    assert found["attainable"], found
    planned = found["planned"]
    assert isinstance(planned, list)
    assert 2 in planned[planned.index(max(planned)) :], "the plan came back to what there is"
    assert found["left_over"] == []
