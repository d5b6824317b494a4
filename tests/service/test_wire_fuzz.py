"""Whatever is sent as a report: it is taken or refused in a sentence, and the service goes on."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.service.config.model import AccessRules
from tests.service.services import CLICKS, HAS_ONE, Served, served

ANSWERS = {200, 400, 409, 413, 503}
BATCH = {"number": 1, "started_age_s": 2.0, "ended_age_s": 1.0, "oldest_age_s": 3.0, "records": 10, "processing_s": 1.0}
SAMPLE = {
    "operator": "count", "at_age_s": 0.4, "age_s": 0.0, "arrived": 12000, "given": 12000, "done": 11900, "emitted": 5,
    "late": 0, "busy_s": 3.0, "available_s": 4.0, "paused_s": 0.0, "backlog": 100, "latency_s": 1.0, "running_s": 0.1,
    "batch_ended_age_s": 1.0, "useful_instances": 4, "skew": 1.0, "input_rate_per_s": 5.0, "processed_rate_per_s": 6.0,
    "output_rate_per_s": 1.0, "processing_time_s": 1.0, "scheduling_delay_s": 0.1, "trigger_interval_s": 1.0,
    "utilization": 0.5, "warming": False, "metrics": {"heap": 0.5}, "parts": {},
}  # fmt: skip
REPORT = {
    "version": 1, "agent": "a", "instances": HAS_ONE, "sample": SAMPLE, "first_batch": 0, "startups": [],
    "first_startup": 0, "events": [{"at_age_s": 1.0, "kind": "x", "detail": "y", "numbers": {"n": 1}}],
    "first_event": 0, "further_metrics": ["heap"], "told": 2,
    "answer": {"outcome": "accepted", "requested": 2, "detail": ""}, "own": None, "leaving": False,
}  # fmt: skip
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, -1e-9, 1e308, -1e308, 2**63, 10**400, math.nan, math.inf, -math.inf]),
)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
"""With lone surrogates and control characters."""
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(TEXTS, st.sampled_from(["$float", *SAMPLE, *REPORT, *BATCH])), inner, max_size=3),
    ),
    max_leaves=8,
)


@st.composite
def reports(draw: st.DrawFn) -> bytes:
    """A report of which some fields were replaced, or left out, or something else altogether."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    sample, report = dict(SAMPLE), dict(REPORT)
    if draw(st.booleans()):
        sample["batches"] = [BATCH | draw(st.dictionaries(st.sampled_from(list(BATCH)), NUMBERS, max_size=2))]
    for name in draw(st.lists(st.sampled_from(list(sample)), max_size=3)):
        sample[name] = draw(st.one_of(NUMBERS, VALUES))
    report["sample"] = sample
    for name in draw(st.lists(st.sampled_from(list(report)), max_size=2)):
        if draw(st.booleans()):
            report[name] = draw(VALUES)
        else:
            del report[name]
            report[name] = None
    return json.dumps(report).encode()


def send_all(here: Served, examples: int) -> Counter[int]:
    """Send so many reports that hypothesis makes up, stepping the jobs in between; gives the answers."""
    statuses: Counter[int] = Counter()
    path = "/v1/jobs/clicks/operators/count/reports"
    headers = {"Authorization": f"Bearer {here.tokens['agent']}"}

    with asyncio.Runner() as runner:
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(here.app), base_url="http://127.0.0.1", headers=headers
        )

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(reports())
        def send(body: bytes) -> None:
            answer = runner.run(client.post(path, content=body))
            statuses[answer.status_code] += 1
            assert answer.status_code in ANSWERS, answer.text
            assert answer.status_code == 200 or answer.headers["content-type"].startswith("text/plain")
            here.clock.advance(1.0)
            if sum(statuses.values()) % 10 == 0:
                here.service.scheduler.step()

        send()
        runner.run(client.aclose())
    return statuses


@pytest.mark.parametrize(
    "examples", [300, pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])], ids=["short", "long"]
)
def test_no_report_makes_the_service_fail(examples: int) -> None:
    other = replace(CLICKS, name="others")
    with served(CLICKS, other, access=AccessRules(requests_per_s=1_000_000)) as here:
        statuses = send_all(here, examples)
        sys.stdout.write(f"{dict(statuses)}\n")
        assert statuses[200] > examples / 100
        here.clock.advance(60.0)
        good: dict[str, Any] = {"agent": "another", "sample": SAMPLE}
        assert here.report(**good).status_code == 200, "a good one is taken"
        before = {job.name: job.ticks for job in here.service.fleet}
        here.clock.advance(10.0)
        assert here.service.scheduler.step() == 2
        assert all(job.ticks > before[job.name] for job in here.service.fleet)
        assert here.client().get("/metrics").status_code == 200
        assert here.client().get("/v1/jobs/clicks").status_code == 200
        assert here.client(headers={"Accept": "text/html"}).get("/jobs/clicks").status_code == 200
