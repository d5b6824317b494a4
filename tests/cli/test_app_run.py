"""headgate app run: what it refuses before anything is started; applications run in tests/live/test_app_run.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.local.machine import free_ports
from tests.cli.commands import refused

RUN = ("app", "run", "grep")
EMBEDDED = (*RUN, "--source", "embedded", "--workload", "constant:10")
LASTING = (*EMBEDDED, "--seconds", "10s")
KAFKA = (*RUN, "--workload", "constant:10", "--seconds", "10s")


@pytest.fixture(autouse=True)
def _nothing_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("app", "run", "grap"), "unknown application 'grap', did you mean 'grep'?"),
        (RUN, "what arrives is not said; write --workload constant:100, or --no-load if others send records."),
        ((*KAFKA, "--no-load"), "--workload 'constant:10' does not go with --no-load; leave one of them out."),
        ((*RUN, "--no-load"), "--no-load needs the topic that others send records to; write --topic NAME."),
        ((*RUN, "--no-load", "--topic", "views"), "no broker is up; start one with: headgate kafka up, or name yours"),
        ((*KAFKA, "--source", "topic"), "--source 'topic' is not known; kafka and embedded are."),
        ((*KAFKA, "--results", "csv"), "--results 'csv' is not known; parquet and json are."),
        ((*KAFKA, "--executors", "4"), "--executors '4' is not understood; write the fewest and the most, as 1..4."),
        ((*KAFKA, "--executors", "4..2"), "max_instances 2 is below min_instances 4"),
        ((*KAFKA, "--policy", "hpaa"), "unknown policy 'hpaa', did you mean 'hpa'?"),
        ((*KAFKA, "--set", "upper"), "--set 'upper' is not understood; write --set key=value."),
        ((*KAFKA, "--guard", "granularty=1"), "unknown setting of guards 'granularty', did you mean 'granularity'?"),
        ((*KAFKA, "--state-partitions", "8..2"), "8 to 2 state partitions are not possible"),
        ((*KAFKA, "--objective", "fast"), "--objective 'fast' is not understood"),
        ((*KAFKA, "--bootstrap", "here"), "the bootstrap address 'here' is not understood;"),
        ((*KAFKA, "--trigger", "soon"), "--trigger: duration 'soon' is not understood"),
        ((*KAFKA, "--record-cost", "much"), "--record-cost: duration 'much' is not understood"),
        ((*KAFKA, "--interval", "0s"), "a trigger every 1 s and a decision every 0 s are not possible"),
        ((*KAFKA, "--json", "/no/such/folder/file"), "/no/such/folder/file cannot be written"),
        ((*LASTING, "--topic", "views"), "--topic 'views' does not go with --source embedded, which reads no topic."),
        ((*LASTING, "--bootstrap", "127.0.0.1:1"), "--bootstrap '127.0.0.1:1' does not go with --source embedded"),
        ((*RUN, "--source", "embedded", "--no-load"), "--source embedded needs a workload, which it gives;"),
        ((*LASTING, "--speed", "max"), "--speed max does not go with --source embedded; 1 to 1000 do."),
        (EMBEDDED, "workload constant:10 has no end; give its length as seconds, such as 10m."),
        ((*LASTING, "--master", "local[2]"), "--master 'local[2]' is not possible: all tasks would run in the driver"),
        ((*LASTING, "--folder", "/proc/none"), "--folder /proc/none cannot be written to: "),
        ((*LASTING, "--checkpoint", "/proc/none"), "--checkpoint /proc/none cannot be written to: "),
    ],
)
def test_a_wrong_use_is_reported_in_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    assert refused(*arguments).startswith(message)


def test_a_broker_that_is_not_there_is_reported_before_anything_starts(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    message = refused(*KAFKA, "--bootstrap", f"127.0.0.1:{port}", "--folder", str(tmp_path / "run"))
    assert message == f"no Kafka broker can be reached (127.0.0.1:{port}: connection refused)."
    assert not (tmp_path / "run/run.json").exists()


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").write_text("")
    assert "holds something that is no run" in refused(*LASTING, "--folder", str(tmp_path / "run"))
