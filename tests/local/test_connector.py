"""Which connector a Spark gets: its own, or the newest that is known to work."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.errors import FetchError
from headgate.local import connector
from headgate.local.connector import find_connector
from headgate.local.jars import JarSet
from headgate.local.machine import free_ports
from tests.local.repository import Repository

OURS, THEIRS = "org.apache.spark", "org.example"
CONNECTOR, TOKEN_PROVIDER = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"


def published(repository: Repository, version: str) -> None:
    repository.publish(f"{OURS}:{CONNECTOR}:{version}", f"connector {version}".encode())


@pytest.fixture
def known(cache: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> JarSet:
    """A connector 4.2.0 with what it needs, all of it published."""
    contents = {f"{OURS}:{CONNECTOR}:4.2.0": b"c", f"{OURS}:{TOKEN_PROVIDER}:4.0.0": b"t", f"{THEIRS}:clients:3": b"k"}
    known = JarSet("4.2.0", dict(repository.publish(name, content) for name, content in contents.items()))
    monkeypatch.setattr(connector, "pinned", lambda name: known)
    return known


def runs(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(connector, "version", lambda package: version)


def versions(found: connector.Connector) -> list[str]:
    return [jar.stem.removeprefix(f"{OURS}_").removeprefix(f"{THEIRS}_") for jar in found.jars]


KNOWN = [f"{CONNECTOR}-4.2.0", f"{TOKEN_PROVIDER}-4.0.0", "clients-3"]


def test_the_known_one_is_taken_for_its_spark_without_asking_for_others(
    known: JarSet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs(monkeypatch, "4.2.0")
    found = find_connector()
    assert (found.version, found.note, versions(found)) == ("4.2.0", None, KNOWN)
    assert capsys.readouterr().err == "fetching Spark's Kafka connector 4.2.0: 3 jars\n"
    assert found.spark_jars == ",".join(map(str, found.jars))


def test_that_of_the_running_spark_comes_first(
    known: JarSet, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, "4.9.0")
    published(repository, "4.9.0")
    found = find_connector()
    assert (found.version, found.note) == ("4.9.0", None)
    assert versions(found) == [f"{CONNECTOR}-4.9.0", f"{TOKEN_PROVIDER}-4.0.0", "clients-3"]


def test_its_own_token_provider_is_taken_where_there_is_one(
    known: JarSet, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, "4.9.0")
    published(repository, "4.9.0")
    repository.publish(f"{OURS}:{TOKEN_PROVIDER}:4.9.0", b"own")
    assert versions(find_connector()) == [f"{CONNECTOR}-4.9.0", f"{TOKEN_PROVIDER}-4.9.0", "clients-3"]


def test_the_known_one_is_taken_where_there_is_no_other_and_that_is_reported(
    known: JarSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, "4.9.0")
    found = find_connector()
    assert (found.version, found.spark_version, versions(found)) == ("4.2.0", "4.9.0", KNOWN)
    assert found.note == "there is no connector 4.9.0."


def test_the_known_one_does_without_a_network(known: JarSet, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, "4.2.0")
    find_connector()
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"http://127.0.0.1:{free_ports(1)[0]}/")
    runs(monkeypatch, "4.9.0")
    found = find_connector()
    assert versions(found) == KNOWN
    assert str(found.note).startswith("Spark's Kafka connector 4.9.0 cannot be fetched: server access error")


def test_without_a_network_at_first_there_is_none(known: JarSet, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, "4.9.0")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"http://127.0.0.1:{free_ports(1)[0]}/")
    with pytest.raises(FetchError, match=r"^Spark's Kafka connector 4\.2\.0 cannot be fetched: server access error"):
        find_connector()


def test_an_older_one_of_the_same_feature_release_comes_before_the_known_one(
    known: JarSet, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, "4.1.2")
    published(repository, "4.1.0")
    found = find_connector()
    assert (found.version, found.note) == ("4.1.0", "there is no connector 4.1.2.")
    assert versions(found) == [f"{CONNECTOR}-4.1.0", f"{TOKEN_PROVIDER}-4.0.0", "clients-3"]


def test_the_jars_are_for_the_scala_of_the_spark_that_is_installed(
    known: JarSet, cache: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark 3.5 from pip is built for Scala 2.12."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    monkeypatch.setattr(connector, "spark_home", lambda: str(tmp_path))
    runs(monkeypatch, "3.5.1")
    with pytest.raises(FetchError, match=r"there is no connector 3\.5\.1\. None for Scala 2\.12 is known"):
        find_connector()
    for path in cache.glob("*.absent"):
        path.unlink()
    for name in (CONNECTOR, TOKEN_PROVIDER):
        repository.publish(f"{OURS}:{name.replace('2.13', '2.12')}:3.5.0", b"older")
    found = find_connector()
    assert (found.version, len(found.jars)) == ("3.5.0", 3)
    assert all("2.13" not in jar.name for jar in found.jars)
