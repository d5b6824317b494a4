"""Fetching jars: once, whole, by one process at a time, and what is said when that cannot be."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from headgate.core.errors import FetchError, InputError
from headgate.local.jars import ASK_AGAIN_S, WORKSHOP, Jar, _problem, cache_directory, fetch, fetch_published, pinned
from headgate.local.machine import free_ports
from tests.local.repository import Repository

BROOK, RIVER = "org.example:brook:1.0", "org.example:river_2.13:2.0"


@pytest.fixture
def wanted(cache: Path, repository: Repository) -> dict[Jar, str]:
    """Two jars that are published."""
    return dict([repository.publish(BROOK, b"brook" * 1000), repository.publish(RIVER, b"river" * 1000)])


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---------------------------------------------------------------------------------------------------------- with sums


def test_what_was_fetched_is_not_fetched_again(
    wanted: dict[Jar, str], cache: Path, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = fetch("water", wanted)
    assert [path.name for path in paths] == ["org.example_brook-1.0.jar", "org.example_river_2.13-2.0.jar"]
    assert paths[0].read_bytes() == b"brook" * 1000
    assert names(cache) == {"lock", *(path.name for path in paths)}
    assert capsys.readouterr() == ("", "fetching water: 2 jars\n")
    repository.folder.rename(repository.folder.with_name("gone"))
    assert fetch("water", wanted) == paths
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("damaged", [b"", b"brook", b"BROOK" * 1000], ids=["empty", "half", "changed"])
def test_a_file_that_was_damaged_is_fetched_again(
    wanted: dict[Jar, str], damaged: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    brook, _ = fetch("water", wanted)
    brook.write_bytes(damaged)
    capsys.readouterr()
    assert fetch("water", wanted)[0].read_bytes() == b"brook" * 1000
    assert capsys.readouterr().err == "fetching water: 1 jar\n", "the other was whole"


def test_what_comes_damaged_is_fetched_once_more_and_then_refused(
    wanted: dict[Jar, str], cache: Path, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    brook = Jar.parse(BROOK)
    repository.path(brook).write_bytes(b"something else")
    with pytest.raises(FetchError) as caught:
        fetch("water", wanted)
    assert re.fullmatch(
        rf"water cannot be fetched: {BROOK} came with the SHA-256 [0-9a-f]{{64}}, not {wanted[brook]}\.",
        str(caught.value),
    )
    assert capsys.readouterr().err == "fetching water: 2 jars\nfetching water: 1 jar\n"
    assert names(cache) == {"lock", "org.example_river_2.13-2.0.jar"}, "only the intact jar is cached"


def test_what_has_not_been_published_is_reported(wanted: dict[Jar, str], repository: Repository) -> None:
    repository.path(Jar.parse(RIVER)).unlink()
    with pytest.raises(FetchError, match=rf"^water cannot be fetched: there is no {RIVER} in file:/.*/repository\.$"):
        fetch("water", wanted)


def test_a_repository_that_cannot_be_reached_is_reported(
    wanted: dict[Jar, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"http://127.0.0.1:{port}/")
    with pytest.raises(FetchError, match=r"^water cannot be fetched: server access error at url .*Connection refused"):
        fetch("water", wanted)


def test_a_cache_that_cannot_be_written_is_reported(wanted: dict[Jar, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_CACHE", f"{os.devnull}/cache")
    with pytest.raises(InputError) as caught:
        fetch("water", wanted)
    assert str(caught.value) == (
        f"water cannot be stored in {os.devnull}/cache/jars: not a directory; HEADGATE_CACHE names another folder."
    )


def test_what_a_killed_fetcher_left_is_cleared_away(wanted: dict[Jar, str], cache: Path) -> None:
    (cache / f"{WORKSHOP}left" / "0").mkdir(parents=True)
    fetch("water", wanted)
    assert not list(cache.glob(f"{WORKSHOP}*"))


class Held(SimpleHTTPRequestHandler):
    """A repository that gives nothing before it may."""

    given: list[str]
    may: Event

    def do_GET(self) -> None:
        self.given.append(self.path)
        self.may.wait()
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its parent has it
        pass


@contextmanager
def held(repository: Repository) -> Iterator[tuple[str, list[str], Event]]:
    """The repository by HTTP; gives its address, the list of requested paths, and what lets it answer."""
    given, may = list[str](), Event()
    handler = type("Handler", (Held,), {"given": given, "may": may})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(repository.folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", given, may
        finally:
            may.set()
            server.shutdown()
        thread.join()


def test_of_two_processes_that_need_the_same_one_fetches(
    wanted: dict[Jar, str], repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {str(jar): digest for jar, digest in wanted.items()}
    program = (
        "from headgate.local.jars import Jar; from headgate.local.jars import fetch\n"
        f"print(len(fetch('water', {{Jar.parse(jar): digest for jar, digest in {texts!r}.items()}})))"
    )
    with held(repository) as (address, given, may):
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", address)
        command = [sys.executable, "-c", program]
        pipe = subprocess.PIPE
        both = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
        first = [process.stderr.readline() for process in both if process.stderr is not None]
        may.set()
        reported = [process.communicate(timeout=60) for process in both]
    assert reported == [("2\n", "")] * 2
    assert sorted(first) == [
        "fetching water: 2 jars\n",
        "waiting for another process that is fetching water\n",
    ]
    assert len(given) == 2, "each jar was requested once"


def test_a_connection_that_falls_silent_is_given_up(
    wanted: dict[Jar, str], repository: Repository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.local.jars.STALL_S", 0.01)
    with pytest.raises(FetchError, match="the download was given up: nothing came for"):
        fetch("water", wanted)
    assert names(cache) == {"lock"}


# ------------------------------------------------------------------------------------------------------- without sums


def test_a_jar_without_a_known_sum_is_checked_against_its_published_one(
    cache: Path, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    jar, _ = repository.publish(BROOK, b"brook")
    path = fetch_published("water", jar)
    assert path is not None
    assert path.read_bytes() == b"brook"
    path.write_bytes(b"damaged")
    assert fetch_published("water", jar) == path
    assert path.read_bytes() == b"brook"
    capsys.readouterr()
    fetch_published("water", jar)
    assert capsys.readouterr().err == ""


def test_a_jar_that_does_not_fit_its_published_sum_is_refused(cache: Path, repository: Repository) -> None:
    jar, _ = repository.publish(BROOK, b"brook", sha1="0" * 40)
    with pytest.raises(FetchError, match=r"^water cannot be fetched: invalid sha1: expected=0000"):
        fetch_published("water", jar)
    assert names(cache) == {"lock"}


@pytest.mark.parametrize("others", [0o777, 0o757], ids=["all", "others"])
def test_jars_that_others_could_have_put_there_are_not_used(cache: Path, repository: Repository, others: int) -> None:
    jar, digest = repository.publish(BROOK, b"brook")
    planted = cache / jar.file_name
    cache.mkdir(parents=True, exist_ok=True)
    planted.write_bytes(b"planted")
    planted.with_suffix(".sha256").write_text(hashlib.sha256(b"planted").hexdigest())
    cache.chmod(others)
    for use in (lambda: fetch("water", {jar: digest}), lambda: fetch_published("water", jar)):
        with pytest.raises(FetchError, match="are not used, because other users may write there"):
            use()
    cache.chmod(0o755)
    assert fetch("water", {jar: digest})[0].read_bytes() == b"brook", "the sums of the package count"


def test_a_jar_that_is_not_published_is_requested_again_after_a_day(
    cache: Path, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    jar = Jar.parse(BROOK)
    assert fetch_published("water", jar) is None
    repository.publish(BROOK, b"brook")
    capsys.readouterr()
    assert fetch_published("water", jar) is None
    assert capsys.readouterr().err == "", "not requested"
    yesterday_s = time.time() - ASK_AGAIN_S
    os.utime(cache / "org.example_brook-1.0.absent", (yesterday_s, yesterday_s))
    assert fetch_published("water", jar) is not None


# ------------------------------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("\tHost no.such.host not found. url=https://no.such.host/a.jar", "host no.such.host not found"),
        ("\tYour proxy requires authentication.", "your proxy requires authentication"),
        ("\tSERVER ERROR: Bad Gateway url=http://host/a.jar", "bad Gateway url=http://host/a.jar"),
        ('Exception in thread "main" java.io.IOException: No space left on device', "no space left on device"),
        ('Exception in thread "main" java.lang.Error: broken', "java.lang.Error: broken"),
        ("\t\t:: org.example#brook;1.0: not found", None),
    ],
)
def test_what_ivy_says_is_reported_in_short(line: str, reported: str | None) -> None:
    assert _problem([":: problems summary ::", line]) == reported


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HEADGATE_CACHE": "/a/b"}, "/a/b"),
        ({"HEADGATE_CACHE": "~/b"}, "{home}/b"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/headgate"),
        ({}, "{home}/.cache/headgate"),
    ],
)
def test_the_cache_is_where_the_user_wants_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str
) -> None:
    for name in ("HEADGATE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(cache_directory()) == folder.format(home=Path.home())


@pytest.mark.parametrize("name", ["kafka", "connector", "flink-kafka"])
def test_every_jar_of_a_set_has_its_sum(name: str) -> None:
    known = pinned(name)
    assert any(jar.version == known.version for jar in known.jars)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in known.jars.values())
    assert len({jar.file_name for jar in known.jars}) == len(known.jars)
