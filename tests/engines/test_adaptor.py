"""Engines in any language join by a small HTTP contract; the twenty lines of the guide keep it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headgate.core.errors import EngineError, EngineGoneError, InputError
from headgate.core.reading_gate import ReadingGate
from headgate.core.types import Decision, Outcome, Verdict
from headgate.engines.adaptor import AdaptorEngine
from headgate.local.machine import LOOPBACK, free_ports
from headgate.testing import ContractViolation, check_adaptor
from tests.engines.adaptors import EXAMPLE, running_example


def test_the_twenty_lines_of_the_guide_keep_the_contract() -> None:
    lines = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(lines) <= 20
    with running_example() as url:
        check_adaptor(url)


class Answers:
    """An adaptor whose answers a test sets."""

    def __init__(self) -> None:
        self.observed: object = {}
        self.applied: object = {}
        self.status = 200
        self.requests: list[str] = []
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(answers.observed)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                answers.requests.append(body)
                self._answer(answers.applied)

            def _answer(self, content: object) -> None:
                answers.requests.append(self.path)
                text = content if isinstance(content, str) else json.dumps(content)
                self.send_response(answers.status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - it is called so
                return None

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self.server.server_address[1]}"


@pytest.fixture
def answers() -> Iterator[Answers]:
    made = Answers()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def seen(**sample: object) -> dict[str, object]:
    return {"version": 1, "instances": {"planned": 3, "requested": 3, "ready": 2}, "sample": sample}


def decision(size: int) -> Decision:
    return Decision(0.0, "test", {"job": Verdict("job", 3, size, size, "test", "the test wants it")})


def test_relative_times_become_moments_and_unknown_fields_are_ignored(answers: Answers) -> None:
    answers.observed = seen(at_age_s=2.0, done=5, batch_ended_age_s=4.0, surprise=1) | {"surprise": 2}
    with closing(AdaptorEngine(answers.url, now=lambda: 1000.0)) as engine:
        found = engine.observe()
    assert found.instances["job"].ready == 2
    sample = found.samples["job"]
    assert (sample.at_s, sample.batch_ended_s, sample.done) == (998.0, 996.0, 5)


def test_a_counter_that_was_reset_is_rebased_alone_and_one_that_was_rounded_is_not(answers: Answers) -> None:
    gate = ReadingGate()
    with closing(AdaptorEngine(answers.url)) as engine:
        counted = []
        for done, busy_s in ((10, 5.0), (12, 6.0), (1, 6.0 - 1e-6), (4, 7.0)):
            answers.observed = seen(done=done, busy_s=busy_s)
            sample = gate.check(engine.observe()).observation.samples["job"]
            counted.append((sample.done, sample.busy_s))
    assert counted == [(10, 5), (12, 6), (None, 6), (15, 7)]


def test_only_metrics_with_a_subscriber_are_requested(answers: Answers) -> None:
    answers.observed = seen(done=1) | {"further_metrics": ["heap", "files"]}
    with closing(AdaptorEngine(answers.url)) as engine:
        engine.observe()
        assert set(engine.extra_metrics) == {"heap", "files"}
        engine.subscribe({"heap"})
        engine.observe()
    assert answers.requests == ["/observe", "/observe?metrics=heap"]


def test_the_outcome_of_a_size_is_reported(answers: Answers) -> None:
    answers.applied = {"version": 1, "outcome": "refused", "requested": 3, "detail": "the cluster is full"}
    with closing(AdaptorEngine(answers.url)) as engine:
        assert engine.apply(decision(4)).answers["job"].detail == "the cluster is full"
        answers.status = 400
        assert engine.apply(decision(4)).outcome is Outcome.REFUSED
        assert engine.apply(decision(-1)).outcome is Outcome.REFUSED
        answers.status = 500
        with pytest.raises(EngineError, match="cannot be changed"):
            engine.apply(decision(4))
        answers.status = 410
        with pytest.raises(EngineGoneError, match="has ended"):
            engine.observe()
    assert json.loads(answers.requests[0]) == {"version": 1, "size": 4}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("nothing", "not JSON"),
        ({"version": 7}, "version 7"),
        ({"version": 1}, "instances: field required"),
        ({"version": 1, "instances": {"planned": 1, "requested": 1, "ready": 1}, "sample": {"done": "many"}}, "many"),
        (
            '{"version": 1, "instances": {"planned": 1, "requested": 1, "ready": 1}, "sample": {"done": NaN}}',
            "done is nan",
        ),
        ({"version": 1, "instances": {"planned": 1, "requested": 1, "ready": 1_000_000}}, "1000000 instances are not"),
    ],
)
def test_a_malformed_observation_is_an_error_that_says_why(answers: Answers, answer: object, why: str) -> None:
    answers.observed = answer
    with closing(AdaptorEngine(answers.url)) as engine, pytest.raises(EngineError, match=why):
        engine.observe()


def test_an_unreachable_adaptor_and_an_unusable_address_are_errors() -> None:
    (port,) = free_ports(1)
    with closing(AdaptorEngine(f"http://{LOOPBACK}:{port}")) as engine, pytest.raises(EngineError, match="not answer"):
        engine.observe()
    with pytest.raises(InputError, match="an address such as"):
        AdaptorEngine("localhost:9000")


def test_the_checks_find_an_adaptor_that_forgets_its_size(answers: Answers) -> None:
    answers.observed = seen(done=1) | {"instances": {"planned": 3, "requested": 3, "ready": 3}}
    answers.applied = {"version": 1, "outcome": "accepted", "requested": 4}
    with pytest.raises(ContractViolation, match="after size 4 was accepted, 3 are planned"):
        check_adaptor(answers.url, settles_within_s=0.1)


def test_the_checks_find_an_adaptor_without_a_reading(answers: Answers) -> None:
    answers.observed = {"version": 1, "instances": {"planned": 3, "requested": 3, "ready": 3}}
    with pytest.raises(ContractViolation, match="there is no sample"):
        check_adaptor(answers.url)
