"""The replayer, by a clock that only passes when it waits or when the sink is slow: no test sleeps."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from headgate.testing.clock import FakeClock
from headgate.workloads.load import AS_FAST_AS_ACCEPTED, Load
from headgate.workloads.payloads import Record
from headgate.workloads.replay import CHUNK, REPORT_EVERY_S, TICK_S, Answers, Replay, ReplayProgress, Sink

START_MS = 1_700_000_000_000
START_S = 5000.0


class FakeSink:
    """Keeps what it gets, with when; where its room is full, a tenth of a second makes room again."""

    def __init__(self, clock: FakeClock, *, room: int = 10**9) -> None:
        self._clock = clock
        self._room = self._free = room
        self.got: list[tuple[float, dict[str, int]]] = []
        self.flushed = 0
        self.refused: set[int] = set()
        self.before_send: Callable[[], None] = lambda: None

    def send(self, records: Sequence[Record]) -> int:
        self.before_send()
        taken = records[: self._free]
        self._free -= len(taken)
        if len(taken) < len(records):
            self._clock.advance(0.1)
            self._free = self._room
        self.got += [(self._clock.now() - START_S, json.loads(record.value)) for record in taken]
        return len(taken)

    def answers(self) -> Answers:
        failed = sum(value["number"] in self.refused for _, value in self.got)
        return Answers(self.flushed - failed if self.flushed else 0, failed, {"refused": failed} if failed else {})

    def flush(self) -> None:
        self.flushed = len(self.got)

    @property
    def numbers(self) -> list[int]:
        return [value["number"] for _, value in self.got]


def replaying(load: Load, sink: Sink, clock: FakeClock) -> Replay:
    return Replay(load, load.make_payloads(), sink, clock, start_ms=START_MS)


def run(
    workload: str,
    seconds: float,
    *,
    speed: float = 1.0,
    room: int = 10**9,
    stop_after: int | None = None,
    tell: Callable[[ReplayProgress], None] = lambda _: None,
) -> tuple[FakeSink, ReplayProgress]:
    clock = FakeClock(START_S)
    sink = FakeSink(clock, room=room)
    stop = threading.Event()
    if stop_after is not None:
        sink.before_send = lambda: stop.set() if len(sink.got) >= stop_after else None
    return sink, replaying(Load(workload, seconds=seconds, speed=speed), sink, clock).run(stop, tell)


@pytest.mark.parametrize(
    ("workload", "seconds", "records"),
    [
        ("constant:1000", 10.0, 10_000),
        ("constant:0.25", 100.0, 25),
        ("ramp:from=0,to=200,over=60s", 60.0, 6000),
        ("periodic:base=0,peak=300,high=1s,low=9s", 30.0, 900),
        ("constant:0.01", 10.0, 0),
    ],
)
@pytest.mark.parametrize("speed", [1.0, 60.0, 1000.0, AS_FAST_AS_ACCEPTED])
def test_every_record_is_sent_once_and_in_order_at_any_speed(
    workload: str, seconds: float, records: int, speed: float
) -> None:
    sink, result = run(workload, seconds, speed=speed)
    assert sink.numbers == list(range(records))
    assert (result.due, result.sent, result.answers.acknowledged, result.unanswered) == (records, records, records, 0)
    assert not result.interrupted


@pytest.mark.parametrize("speed", [1.0, 60.0])
def test_a_record_is_never_early_and_at_most_a_tick_late(speed: float) -> None:
    sink, result = run("ramp:from=0,to=200,over=60s", 60.0, speed=speed)
    for at_s, value in sink.got:
        late_s = at_s - (value["at_ms"] - START_MS) / 1000 / speed
        # Event times are whole milliseconds, rounded down.
        assert -1e-4 <= late_s <= TICK_S + 0.001
    assert result.lateness is not None
    assert 0 < result.lateness.max_s <= TICK_S + 1e-4


def test_event_time_passes_at_the_speed_of_the_workload() -> None:
    real, _ = run("constant:10", 60.0)
    fast, fast_result = run("constant:10", 60.0, speed=60.0)
    hasty, hasty_result = run("constant:10", 60.0, speed=AS_FAST_AS_ACCEPTED)
    assert [value for _, value in real.got] == [value for _, value in fast.got] == [value for _, value in hasty.got]
    assert fast_result.elapsed_s == pytest.approx(1.0, abs=0.01)
    assert hasty_result.lateness is None


def test_records_not_sent_in_time_are_sent_later_and_reported() -> None:
    """A sink of 500/s under a load of 1000/s for 10 s: open loop, so the last record is 10 s late."""
    sink, result = run("constant:1000", 10.0, room=50)
    assert sink.numbers == list(range(10_000))
    assert result.elapsed_s == pytest.approx(20.0, abs=0.1)
    assert result.lateness is not None
    assert result.lateness.max_s == pytest.approx(10.0, abs=0.1)
    assert result.lateness.percentile_s(50) == pytest.approx(5.0, rel=0.05)
    assert result.lateness.moved_share > 0.4


def test_a_full_buffer_loses_and_doubles_nothing() -> None:
    sink, result = run("constant:20000", 1.0, speed=AS_FAST_AS_ACCEPTED, room=CHUNK // 7)
    assert sink.numbers == list(range(20_000))
    assert result.sent == 20_000


def test_a_stop_ends_it_at_once_and_tells_what_was_sent() -> None:
    sink, result = run("constant:1000", 60.0, stop_after=5000)
    assert result.interrupted
    assert result.sent == len(sink.got) < 5100
    assert sink.numbers == list(range(result.sent))
    assert result.due >= result.sent
    assert result.answers.acknowledged == result.sent, "what was sent is still waited for"


def test_a_stop_is_noticed_while_the_sink_accepts_nothing() -> None:
    clock = FakeClock(START_S)
    sink = FakeSink(clock, room=0)
    stop = threading.Event()
    attempts = Counter[str]()

    def before_send() -> None:
        attempts["send"] += 1
        if attempts["send"] == 50:
            stop.set()

    sink.before_send = before_send
    reports: list[ReplayProgress] = []
    result = replaying(Load("constant:1000", seconds=60.0), sink, clock).run(stop, reports.append)
    assert (result.sent, result.interrupted) == (0, True)
    assert len(reports) > 10, "progress is reported meanwhile"
    assert result.due == pytest.approx(5000, abs=100)


def test_being_stopped_twice_ends_the_wait_for_answers() -> None:
    clock = FakeClock(START_S)

    class Unanswering(FakeSink):
        def flush(self) -> None:
            raise KeyboardInterrupt

    replay = replaying(Load("constant:1000", seconds=1.0), Unanswering(clock), clock)
    result = replay.run(threading.Event())
    assert (result.sent, result.unanswered) == (1000, 1000)


def test_it_tells_how_it_stands_a_few_times_a_second() -> None:
    reports: list[ReplayProgress] = []
    run("constant:1", 60.0, tell=reports.append)
    assert len(reports) == pytest.approx(60 / REPORT_EVERY_S, abs=5)
    assert [standing.due for standing in reports] == sorted(standing.due for standing in reports)


def test_a_load_that_was_cut_short_goes_on_with_the_next_record_by_its_own_clock() -> None:
    """It began ten seconds ago, and was cut short after three: what was due since comes at once, the rest in time."""
    clock = FakeClock(START_S)
    sink, load = FakeSink(clock), Load("constant:10", seconds=20.0)
    payloads = load.make_payloads()
    replay = Replay(load, payloads, sink, clock, start_ms=START_MS, first=30, began_s=START_S - 10.0)
    result = replay.run(threading.Event())
    assert sink.numbers == list(range(30, 200))
    assert [value["at_ms"] for _, value in sink.got[:2]] == [START_MS + 3050, START_MS + 3150]
    assert sum(at_s <= 0.01 for at_s, _ in sink.got) == pytest.approx(70, abs=1)
    assert sink.got[-1][0] == pytest.approx(9.95, abs=0.1)
    assert (result.due, result.sent, result.answers.acknowledged, result.unanswered) == (200, 200, 200, 0)


def test_by_the_clock_event_times_are_when_records_are_due_at_any_speed() -> None:
    clock = FakeClock(START_S)
    sink, load = FakeSink(clock), Load("constant:1", seconds=600.0, speed=60.0)
    Replay(load, load.make_payloads(), sink, clock, start_ms=START_MS, by_the_clock=True).run(threading.Event())
    assert len(sink.got) == 600
    for at_s, value in sink.got:
        assert 0 <= at_s - (value["at_ms"] - START_MS) / 1000 <= TICK_S + 0.001
