"""static: one size for ever."""

from headgate.core.types import Sample
from headgate.core.window import History
from tests.core.building import JOB, history, policy, propose


def test_it_keeps_the_size_the_job_has() -> None:
    assert propose(policy("static"), history([Sample("job", 0, latency_s=99)], planned=3)).instances == 3


def test_it_goes_to_the_size_it_was_given() -> None:
    assert propose(policy("static", instances=5), history([Sample("job", 0)], planned=3)).instances == 5


def test_it_has_no_opinion_on_a_job_of_unknown_size() -> None:
    assert policy("static", instances=5).decide(0, History(JOB)).targets == {}
