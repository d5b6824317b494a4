"""Each check finds what it is there for, says it in one sentence, and what to do about it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable
from email.utils import formatdate
from pathlib import Path

import pytest

from headgate.local.checkup import host as permissions
from headgate.local.checkup.finding import Finding, FindingStatus
from headgate.local.checkup.host import check_clock, check_permissions, check_ports
from headgate.local.checkup.remote import ServiceAnswer, check_kafka
from headgate.local.checkup.software import check_java, check_spark, check_versions
from headgate.local.machine import free_ports
from tests.http_receiver import HttpReceiver


def reported(findings: Iterable[Finding], status: FindingStatus) -> list[str]:
    found = [finding for finding in findings if finding.status is status]
    assert all(finding.remedy for finding in found)
    return [finding.text for finding in found]


def wrong(findings: Iterable[Finding]) -> list[str]:
    return reported(findings, FindingStatus.PROBLEM)


def odd(findings: Iterable[Finding]) -> list[str]:
    return reported(findings, FindingStatus.WARNING)


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


# ---------------------------------------------------------------------------------------------------------------- Java


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "(by JAVA_HOME) is Java 11; Spark 4 needs 17 or newer."),
        ("echo 'java version \"1.8.0_292\"' >&2", "(by JAVA_HOME) is Java 8; Spark 4 needs 17 or newer."),
        ("echo no memory >&2; exit 1", "-version ended with 1 and said 'no memory'."),
    ],
)
def test_a_java_that_will_not_do(says: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bin" / "java", says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (problem,) = wrong(check_java())
    assert problem.endswith(expected)


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (problem,) = wrong(check_java())
    assert problem.startswith(f"no java was found in JAVA_HOME '{tmp_path}'")


def test_a_java_that_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = script(tmp_path / "bin" / "java", "echo 'openjdk version \"21.0.1\" 2024' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert [finding.text for finding in check_java()] == [f"Java 21 at {command}."]


# --------------------------------------------------------------------------------------------------------------- Spark


def test_another_spark_on_the_machine(tmp_path: Path) -> None:
    (tmp_path / "RELEASE").write_text("Spark 3.5.1 built for Hadoop 3.3.4\n", encoding="utf-8")
    (problem,) = wrong(check_spark({"SPARK_HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}))
    assert f"SPARK_HOME is {tmp_path} with Spark 3.5.1" in problem
    assert wrong(check_spark({"SPARK_HOME": "/nowhere", "SPARK_LOCAL_IP": "127.0.0.1"})) == [
        "SPARK_HOME is /nowhere, which is not a folder."
    ]


@pytest.mark.parametrize(
    ("version", "works"),
    [("3.4.4", False), ("3.5.9", True), ("4.0.5", True), ("4.2.0", True), ("4.3.0", True), ("5.0.0", False)],
)
def test_the_versions_of_spark_that_it_works_with(version: str, works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda package: version)
    problems = wrong(check_spark({"SPARK_LOCAL_IP": "127.0.0.1"}))
    assert problems == ([] if works else [f"pyspark {version} is installed; Headgate works with >=3.5,<5."])


def test_workers_with_another_python(tmp_path: Path) -> None:
    other = script(tmp_path / "python", "echo 3.8")
    (problem,) = wrong(check_spark({"PYSPARK_PYTHON": str(other), "SPARK_LOCAL_IP": "127.0.0.1"}))
    mine = "{}.{}".format(*sys.version_info)
    assert problem == f"PYSPARK_PYTHON is Python 3.8, the driver runs {mine}; workers must have the same."
    assert wrong(check_spark({"PYSPARK_PYTHON": "/nowhere/python", "SPARK_LOCAL_IP": "x"})) == [
        "PYSPARK_PYTHON is /nowhere/python, which cannot be found."
    ]


def _unknown(name: str) -> str:
    raise socket.gaierror(-2, "Name or service not known")


def test_a_machine_whose_name_has_no_address() -> None:
    (problem,) = wrong(check_spark({}, _unknown))
    assert problem.endswith("and nobody knows its address; a driver would not start.")
    assert wrong(check_spark({"SPARK_LOCAL_IP": "127.0.0.1"}, _unknown)) == []


# ------------------------------------------------------------------------------------------------------------ versions


def test_a_python_that_is_too_old() -> None:
    assert wrong(check_versions((3, 9, 1), [])) == ["Python 3.9.1 is too old; 3.11 or newer is needed."]


def test_packages_that_do_not_fit() -> None:
    needs = [
        "numpy>=1.26",
        "pandas<3,>=2.2; extra == 'spark'",
        "rich>=14",
        "optuna>=4; extra == 'lab'",
        "pytest>=8; extra == 'dev'",
        "headgate[spark]; extra == 'lab'",
    ]
    found = {"numpy": "1.25.2", "pandas": "3.0.1"}
    findings = list(check_versions((3, 12, 0), needs, found.get))
    assert wrong(findings) == [
        "numpy 1.25.2 is installed; Headgate needs numpy>=1.26.",
        "pandas 3.0.1 is installed; Headgate needs pandas<3,>=2.2.",
        "rich is not installed, and Headgate needs it.",
    ]
    assert odd(findings) == ["extra lab is not complete, for want of optuna."]


def test_the_packages_of_this_very_environment_fit() -> None:
    assert wrong(check_versions()) == []


# --------------------------------------------------------------------------------------------------------------- ports


def test_a_port_that_somebody_has() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert odd(check_ports([port])) == [f"port {port} of 127.0.0.1 cannot be taken: address already in use."]
    assert [finding.status for finding in check_ports(free_ports(1))] == [FindingStatus.OK]


def test_a_localhost_that_is_elsewhere_or_nowhere() -> None:
    assert odd(check_ports([], lambda name: "10.0.0.1")) == ["localhost is 10.0.0.1, not 127.0.0.1."]
    assert wrong(check_ports([], _unknown)) == ["localhost has no address."]


# --------------------------------------------------------------------------------------------------------------- clock


def test_a_clock_that_was_never_set(tmp_path: Path) -> None:
    installed = tmp_path / "file"
    installed.touch()
    (problem,) = wrong(check_clock(lambda: 1000.0, installed=installed))
    assert problem.startswith("the clock says 1970-01-01 00:16:40 UTC, but Headgate was installed on ")


@pytest.mark.parametrize(
    ("behind_s", "expected"),
    [
        (0, []),
        (120, ["this clock is 120 s ahead of the service's"]),
        (-60, ["this clock is 60 s behind the service's"]),
    ],
)
def test_a_clock_that_is_not_the_services(behind_s: int, expected: list[str]) -> None:
    now_s = 4_000_000_000.0
    found = odd(check_clock(lambda: now_s, formatdate(now_s - behind_s, usegmt=True)))
    assert [message.split(";")[0] for message in found] == expected
    assert len(odd(check_clock(lambda: now_s, "yesterday"))) == 1


# --------------------------------------------------------------------------------------------------------- permissions


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (problem,) = wrong(check_permissions(tmp_path / "gone", tmp_path))
    assert problem.endswith("cannot be used for temporary files: no such file or directory.")


def test_a_key_that_others_may_read(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("secret", encoding="utf-8")
    key.chmod(0o644)
    assert odd(check_permissions(tmp_path, tmp_path, [key])) == [
        f"{key} holds a secret, and others may read it (0644)."
    ]
    key.chmod(0o600)
    assert [finding.status for finding in check_permissions(tmp_path, tmp_path, [key])] == [FindingStatus.OK]
    assert wrong(check_permissions(tmp_path, tmp_path, [tmp_path / "gone"])) == [
        f"{tmp_path / 'gone'} cannot be read: no such file or directory."
    ]


def test_limits_that_are_too_low_and_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "LEAST_FILES", 10**9)
    monkeypatch.setattr(permissions, "LEAST_FREE_BYTES", 10**18)
    disk, files = odd(check_permissions(tmp_path, tmp_path))
    assert "GB left" in disk
    assert "files; a driver and a service need" in files


def test_a_folder_from_which_nothing_may_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Mounting a folder so takes root; what matters is what the system then says.
    def refused(command: list[str], **_: object) -> None:
        raise PermissionError(13, "Permission denied", command[0])

    monkeypatch.setattr("headgate.local.checkup.host.subprocess.run", refused)
    (problem,) = wrong(check_permissions(tmp_path, tmp_path))
    assert problem == f"nothing may be run from {tmp_path} (noexec); Spark's libraries are unpacked there."


# --------------------------------------------------------------------------------------------------- Kafka and service


def test_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.local.checkup.remote.KAFKA_ANSWERS_WITHIN_S", 1.0)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    (problem,) = wrong(check_kafka(address))
    assert problem.startswith(f"the broker at {address} does not answer: ")
    assert wrong(check_kafka()) == []


def test_kafka_without_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.local.checkup.remote.find_spec", lambda name: None)
    assert odd(check_kafka()) == ["Kafka cannot be reached: confluent-kafka is not installed."]
    assert wrong(check_kafka("127.0.0.1:9092")) == ["Kafka cannot be reached: confluent-kafka is not installed."]


def test_a_service_that_is_away_idle_or_well() -> None:
    with HttpReceiver(lambda *_: (503, b"nothing steps the jobs.")) as idle:
        assert wrong(ServiceAnswer.of(idle.url).findings()) == [f"{idle.url} answers 503: nothing steps the jobs."]
    with HttpReceiver(lambda *_: (200, b"ok")) as well:
        answer = ServiceAnswer.of(well.url)
        assert [finding.status for finding in answer.findings()] == [FindingStatus.OK]
        assert answer.date is not None
    assert wrong(ServiceAnswer.of(well.url).findings()) == [f"{well.url} does not answer: connection refused."]
