"""Reaching a broker, and saying why none can be reached."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from headgate.core.errors import EngineError, InputError
from headgate.local.machine import free_ports
from headgate.local.topics import addresses, broker_answers, check_broker


@pytest.fixture
def free_port() -> int:
    return free_ports(1)[0]


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something on a port that talks in its own way to the one who calls."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def answer(payload: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.recv(1024)
        connection.sendall(payload)

    return talk


@pytest.mark.parametrize(
    ("payload", "reason"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "invalid response size 1213486160"), (b"", "no answer within 2 s")],
    ids=["a web server", "hangs up"],
)
def test_a_server_of_another_kind_is_no_broker(payload: bytes, reason: str) -> None:
    with server(answer(payload)) as bootstrap, pytest.raises(EngineError) as caught:
        check_broker(bootstrap, timeout_s=2.0)
    assert str(caught.value).startswith(f"no Kafka broker can be reached ({bootstrap}: {reason}")
    assert str(caught.value).endswith(").")


def test_a_silent_server_is_given_up_soon() -> None:
    def listen(connection: socket.socket) -> None:
        while connection.recv(1024):
            pass

    with server(listen) as bootstrap, pytest.raises(EngineError, match=f"{bootstrap}: no answer within 0.2 s"):
        check_broker(bootstrap, timeout_s=0.2)


def test_a_closed_port_and_an_unknown_host_are_reported(free_port: int) -> None:
    with pytest.raises(EngineError) as caught:
        check_broker(f"127.0.0.1:{free_port},no.such.host.invalid:1")
    message = str(caught.value)
    assert f"127.0.0.1:{free_port}: connection refused" in message
    assert "no.such.host.invalid:1: " in message
    assert not broker_answers(f"127.0.0.1:{free_port}")


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":9092", "localhost:kafka", "localhost:65536", "a:1,"])
def test_an_address_has_a_host_and_a_port(text: str) -> None:
    with pytest.raises(InputError, match=r"is not understood; write HOST:PORT, as 127.0.0.1:9092\."):
        addresses(text)
