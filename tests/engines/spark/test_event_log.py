"""What is read from event logs of Spark: whole ones, packed ones, and those that are broken."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.engines.spark.event_log import LoggedJob, NoStreamingQueryError, read_event_log
from headgate.engines.spark.event_log_files import event_lines, find_event_logs
from tests.engines.spark.event_logs import BEGAN_S, LISTENER, PACKED, LoggedRun, text_of, write_log

RUN = LoggedRun()


def read(path: Path, late_after_s: float | None = 10.0, query: str | None = None) -> LoggedJob:
    (log,) = find_event_logs(path)
    return read_event_log(log, late_after_s=late_after_s, query=query)


def batches_of(job: LoggedJob) -> list[tuple[float, int | None]]:
    return [
        (batch.records, batch.instances)
        for seen in job.observations
        if "job" in seen.samples
        for batch in seen.samples["job"].batches
    ]


def test_a_log_gives_load_batches_executors_and_start_ups(tmp_path: Path) -> None:
    job = read(write_log(tmp_path / "app"))
    last = job.observations[-1].samples["job"]
    arrived = RUN.load_until(RUN.seconds - 5.0)
    assert (job.name, job.application, job.query, job.spark) == ("shop", "app-orders", "orders", "4.3.0")
    assert last.arrived == pytest.approx(arrived, rel=0.01)
    assert last.done == arrived
    assert last.trigger_interval_s == 5.0
    assert last.useful_instances == 8
    assert {instances for _, instances in batches_of(job)} == {2}
    assert sum(records for records, _ in batches_of(job)) == arrived
    assert all(seen.instances["job"].ready == 2 for seen in job.observations)
    assert [startup.registered_after_s for seen in job.observations for startup in seen.startups.get("job", ())] == [
        4.0,
        4.0,
    ]
    assert (job.startups_from, job.left_out, job.counts) == ("requests", [], True)


def test_arrivals_are_those_that_later_triggers_showed_and_never_go_back(tmp_path: Path) -> None:
    # At the end of the busiest part, arrivals that were extrapolated would be too many.
    job = read(write_log(tmp_path / "app", replace(RUN, rate_per_s=12.0)))
    samples = [seen.samples["job"] for seen in job.observations if "job" in seen.samples]
    arrived = [sample.arrived or 0.0 for sample in samples]
    assert all(before <= after for before, after in pairwise(arrived))
    for sample in samples[:-1]:
        # The load began 10 s after the application.
        assert sample.arrived == pytest.approx(RUN.load_until(sample.at_s - BEGAN_S - 10.0), abs=300)


@pytest.mark.parametrize("bound_s", [8.0, 30.0, 60.0])
def test_late_records_are_those_whose_batch_ended_later_than_the_bound(tmp_path: Path, bound_s: float) -> None:
    slow = replace(RUN, executors=RUN.executors[:1])
    job = read(write_log(tmp_path / "app", slow), bound_s)
    grid_s = np.arange(0.0, RUN.seconds + 1, 0.01)
    arrivals = [slow.load_until(at_s) for at_s in grid_s]
    late = done = 0
    for event in slow.lines():
        if "progress" in event:
            body = event["progress"]
            ended_s = (
                datetime.fromisoformat(body["timestamp"]).timestamp() + body["durationMs"]["triggerExecution"] / 1000
            )
            records = np.arange(done, done := done + body["sources"][0]["numInputRows"])
            arrived_s = BEGAN_S + 10.0 + np.interp(records, arrivals, grid_s)
            late += int((ended_s - arrived_s > bound_s).sum())
    assert job.observations[-1].samples["job"].late == pytest.approx(late, rel=0.02, abs=20)


def test_executors_are_planned_from_their_request_and_ready_from_their_registration(tmp_path: Path) -> None:
    executors = (*RUN.executors, ("2", 100.0, 130.0, 400.0))
    job = read(write_log(tmp_path / "app", replace(RUN, executors=executors)))
    begin_s = job.observations[0].at_s - 10.5
    sizes = [(round(seen.at_s - begin_s), seen.instances["job"]) for seen in job.observations]
    assert [size.planned for at_s, size in sizes if 101 < at_s < 399] == [3] * sum(
        101 < at_s < 399 for at_s, _ in sizes
    )
    assert {size.ready for at_s, size in sizes if 101 < at_s < 129} == {2}
    assert {size.ready for at_s, size in sizes if 140 < at_s < 390} == {3}
    assert {size.planned for at_s, size in sizes if at_s > 405} == {2}
    startups = [startup for seen in job.observations for startup in seen.startups.get("job", ())]
    assert [(startup.instance, startup.registered_after_s) for startup in startups] == [("2", 30.0)]
    assert job.left_out == ["an executor was lost; the batches that ran then are taken as delayed, not as usual"]


def test_of_older_logs_start_up_is_that_of_the_first_executor(tmp_path: Path) -> None:
    job = read(write_log(tmp_path / "app", replace(RUN, spark="3.3.4")))
    startups = [startup for seen in job.observations for startup in seen.startups.get("job", ())]
    assert job.startups_from == "application"
    assert {startup.registered_after_s for startup in startups} == {4.0}


@pytest.mark.parametrize("packed", PACKED)
def test_packed_logs_are_read_as_plain_ones(tmp_path: Path, packed: str) -> None:
    text = text_of(RUN.lines())
    path = tmp_path / "app"
    path.write_bytes(PACKED[packed](text))
    (log,) = find_event_logs(path)
    lines = [line for line in event_lines(log, pytest.fail) if line]
    assert b"\n".join(lines) + b"\n" == text


@pytest.mark.parametrize("packed", PACKED)
def test_a_log_that_ends_in_the_middle_is_used_as_far_as_it_goes(tmp_path: Path, packed: str) -> None:
    path = tmp_path / "app.inprogress"
    content = PACKED[packed](text_of(RUN.lines()))
    path.write_bytes(content[: len(content) * 2 // 3])
    job = read(path)
    assert 10 < job.batches < 100
    assert "the log has no end of the application" in job.left_out
    assert len(job.left_out) >= 2 or packed == "plain"


def test_lzf_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "app.lzf"
    path.write_bytes(b"ZV\x01" + bytes(100))
    with pytest.raises(InputError, match="is packed by lzf, which cannot be read"):
        read(path)


def test_the_parts_of_a_rolling_log_follow_each_other_and_a_compacted_one_replaces_those_before(tmp_path: Path) -> None:
    lines = text_of(RUN.lines()).splitlines(keepends=True)
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    (folder / "appstatus_app").touch()
    cuts = [0, len(lines) // 3, 2 * len(lines) // 3, len(lines)]
    for place, (start, end) in enumerate(pairwise(cuts), start=9):
        (folder / f"events_{place}_app").write_bytes(b"".join(lines[start:end]))
    whole = read(folder)
    (folder / "events_10_app.compact").write_bytes(b"".join(lines[:6]) + b"".join(lines[cuts[1] : cuts[2]]))
    (log,) = find_event_logs(folder)
    assert [file.name for file in log.files] == ["events_10_app.compact", "events_11_app"]
    compacted = read(folder)
    assert whole.batches == len(batches_of(whole))
    assert 0 < compacted.batches < whole.batches


def test_a_history_folder_has_a_log_for_each_application(tmp_path: Path) -> None:
    write_log(tmp_path / "app-1")
    write_log(tmp_path / "app-2.inprogress")
    (tmp_path / "eventlog_v2_app-3").mkdir()
    write_log(tmp_path / "eventlog_v2_app-3" / "events_1_app-3")
    (tmp_path / ".app-1.crc").write_bytes(b"crc")
    (tmp_path / "empty").touch()
    logs = find_event_logs(tmp_path)
    assert [(log.path.name, log.is_open) for log in logs] == [
        ("app-1", False),
        ("app-2.inprogress", True),
        ("eventlog_v2_app-3", False),
    ]


def test_of_several_queries_that_with_the_most_records_is_read(tmp_path: Path) -> None:
    path = tmp_path / "app"
    other = [event for event in LoggedRun(seconds=60.0, query="small").lines() if LISTENER in str(event["Event"])]
    path.write_bytes(text_of([*RUN.lines()]) + text_of(other))
    job = read(path)
    assert (job.query, dict(job.others)) == ("orders", {"small": 11})
    assert read(path, query="small").batches == 11
    with pytest.raises(InputError, match=r"has no query 'large'; it has orders, small\."):
        read(path, query="large")


def test_a_clock_that_was_set_back_moves_later_times(tmp_path: Path) -> None:
    events = [*RUN.lines()]
    progress = [event["progress"] for event in events if "progress" in event]
    for body in progress[len(progress) // 2 :]:
        body["timestamp"] = body["timestamp"].replace("2027-01-15T08:", "2027-01-15T07:")
    path = tmp_path / "app"
    path.write_bytes(text_of(events))
    job = read(path)
    times_s = [seen.at_s for seen in job.observations]
    assert times_s == sorted(times_s)
    assert job.observations[-1].samples["job"].done == RUN.load_until(RUN.seconds - 5.0)
    assert any("the clock went back by" in sentence for sentence in job.left_out)


def test_events_that_lack_something_are_counted_and_left_out(tmp_path: Path) -> None:
    events = [*RUN.lines()]
    del next(event for event in events if "progress" in event)["progress"]["durationMs"]
    path = tmp_path / "app"
    path.write_bytes(text_of(events) + b'{"Event":"SparkListenerExecutorAdded"}\n{"Event":"Spark\nnothing\n')
    left_out = read(path).left_out
    assert "a QueryProgressEvent lacks what it should have" in left_out
    assert "a SparkListenerExecutorAdded lacks what it should have" in left_out
    assert "a line is no event" in left_out


@pytest.mark.parametrize("text", ["", '{"Event":"SparkListenerLogStart","Spark Version":"3.5.1"}\n', "no log\n" * 9])
def test_a_log_without_a_streaming_query_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "app"
    path.write_text(text)
    with pytest.raises(NoStreamingQueryError, match="has no progress of a streaming query with a batch"):
        read(path)


def test_progress_lines_are_read_with_the_executors_that_are_given(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    bodies = [event["progress"] for event in RUN.lines() if "progress" in event]
    for body in bodies:
        for source in body["sources"]:
            # ``lastProgress`` has offsets parsed.
            source |= {key: json.loads(source[key]) for key in ("startOffset", "endOffset", "latestOffset")}
    path.write_bytes(text_of(bodies))
    (log,) = find_event_logs(path)
    job = read_event_log(log, instances=2)
    assert {instances for _, instances in batches_of(job)} == {2}
    assert job.observations[-1].samples["job"].done == RUN.load_until(RUN.seconds - 5.0)
    assert job.startups_from == ""


def test_progress_lines_without_a_number_of_executors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_bytes(text_of([event["progress"] for event in RUN.lines() if "progress" in event]))
    with pytest.raises(InputError, match="says nothing of executors; say --instances with how many there were"):
        read(path)


def test_executors_that_a_log_has_count_and_not_those_that_are_given(tmp_path: Path) -> None:
    (log,) = find_event_logs(write_log(tmp_path / "app"))
    assert {count for _, count in batches_of(read_event_log(log, instances=7))} == {2}


def test_a_journal_is_none(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(b"SQLite format 3\x00" + bytes(100))
    with pytest.raises(InputError, match="is a database, such as a journal, and no event log"):
        read(path)


def test_numbers_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "app"
    added = (
        '{"Event":"SparkListenerExecutorAdded","Timestamp":1e400,"Executor ID":"9","Executor Info":{"Total Cores":1}}'
    )
    path.write_bytes(text_of(RUN.lines()) + added.encode() + b"\n")
    assert {count for _, count in batches_of(read(path))} == {2}


def test_many_batches_are_retained_in_fewer_observations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.engines.spark.event_log.MOST_OBSERVATIONS", 20)
    job = read(write_log(tmp_path / "app"))
    assert len(job.observations) <= 21
    assert len(batches_of(job)) == job.batches == 119
