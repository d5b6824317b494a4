"""Asking a broker whether it is there, and being told what is there instead."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headgate.core.errors import EngineError, InputError
from headgate.local.broker import RELEASES, addresses, answers, release
from headgate.local.jars import pinned
from headgate.local.machine import free_ports


@pytest.fixture
def free_port() -> int:
    return free_ports(1)[0]


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something on a port that talks in its own way to the one who calls."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                talk(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def answer(payload: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.recv(1024)
        connection.sendall(payload)

    return talk


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def supporting(level: int) -> bytes:
    """An answer with one API, and metadata.version up to a level."""
    feature = b"\x02" + b"\x11metadata.version" + (1).to_bytes(2, "big") + level.to_bytes(2, "big") + b"\0"
    tags = b"\x01" + b"\x00" + bytes([len(feature)]) + feature
    return framed(bytes(4) + bytes(2) + b"\x02" + bytes(6) + b"\0" + bytes(4) + tags)


@pytest.mark.parametrize(("level", "told"), [(7, "3.3"), (9, "3.5"), (22, "4.0"), (30, "4.3"), (31, "newer than 4.3")])
def test_the_release_is_told_by_the_highest_level_it_supports(level: int, told: str) -> None:
    with server(answer(supporting(level))) as bootstrap:
        assert release(bootstrap) == told


@pytest.mark.parametrize(
    "payload",
    [framed(bytes(4) + (35).to_bytes(2, "big") + bytes(8)), framed(bytes(6) + b"\x01" + bytes(4) + b"\x00")],
    ids=["does not know the question", "has no features"],
)
def test_an_old_broker_is_a_broker(payload: bytes) -> None:
    with server(answer(payload)) as bootstrap:
        assert release(bootstrap) == "before 3.3, or with ZooKeeper"


def test_the_release_that_is_fetched_is_known() -> None:
    assert pinned("kafka").version.rpartition(".")[0] == max(RELEASES.items())[1]


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers there is no Kafka broker (an answer of 1213486160 bytes)"),
        (b"\0\0", "what answers there is no Kafka broker (2 bytes where 4 were promised)"),
        (framed(b"\0" * 6 + b"\xff" * 9), "what answers there is no Kafka broker (a number without end)"),
        (framed(b"\0" * 6 + b"\x09"), "what answers there is no Kafka broker (0 bytes where 6 were promised)"),
    ],
    ids=["a web server", "hangs up", "nonsense", "cut short"],
)
def test_what_is_no_broker_is_told(payload: bytes, said: str) -> None:
    with server(answer(payload)) as bootstrap, pytest.raises(EngineError) as caught:
        release(bootstrap)
    assert str(caught.value) == f"no Kafka broker can be reached ({bootstrap}: {said})."


def test_silence_is_not_waited_for() -> None:
    def listen(connection: socket.socket) -> None:
        while connection.recv(1024):
            pass

    with server(listen) as bootstrap, pytest.raises(EngineError, match=f"{bootstrap}: timed out"):
        release(bootstrap, timeout_s=0.2)


def test_a_closed_port_and_an_unknown_host_are_told(free_port: int) -> None:
    with pytest.raises(EngineError) as caught:
        release(f"127.0.0.1:{free_port},no.such.host.invalid:1")
    said = str(caught.value)
    assert f"127.0.0.1:{free_port}: connection refused; no.such.host.invalid:1: " in said
    assert not answers(f"127.0.0.1:{free_port}")


def test_the_first_of_a_list_that_answers_is_asked(free_port: int) -> None:
    with server(answer(supporting(30))) as bootstrap:
        assert release(f"127.0.0.1:{free_port},{bootstrap}") == "4.3"


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":9092", "localhost:kafka", "localhost:65536", "a:1,"])
def test_an_address_has_a_host_and_a_port(text: str) -> None:
    with pytest.raises(InputError, match=r"is not understood; write HOST:PORT, as 127.0.0.1:9092\."):
        addresses(text)
