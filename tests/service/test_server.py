"""The server: where it listens, and that it speaks TLS with a certificate."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from headgate.client import Client
from headgate.core.errors import InputError, ServiceAwayError
from headgate.service import connections
from headgate.service.config.model import ServiceConfig, Tls
from headgate.service.serving import ApiServer, serving
from tests.service.services import CLICKS, served


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate of this machine, which nobody else trusts."""
    folder = tmp_path_factory.mktemp("tls")
    made = Tls(folder / "service.pem", folder / "service.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(made.key), "-out", str(made.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return made


def test_tls_is_spoken_with_a_certificate_that_the_client_trusts(tls: Tls) -> None:
    with served() as here, ApiServer(here.app, tls=tls) as server:
        assert server.url.startswith("https://127.0.0.1:")
        with Client(server.url, certificate=str(tls.certificate)) as client:
            assert [job["name"] for job in client.jobs()] == ["clicks"]
        with Client(server.url) as careful, pytest.raises(ServiceAwayError, match="does not answer"):
            careful.jobs()


def test_files_that_tls_cannot_be_spoken_with_are_refused_by_name(tls: Tls, tmp_path: Path) -> None:
    text, other, locked, none = (tmp_path / name for name in ("text", "other.key", "locked.key", "none"))
    text.write_text("not a certificate")
    make_key = ("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    subprocess.run([*make_key, "-out", str(other)], check=True, capture_output=True)
    encrypted = ("-aes256", "-pass", "pass:secret", "-out", str(locked))
    subprocess.run([*make_key, *encrypted], check=True, capture_output=True)
    cases = {
        (text, tls.key): f"{text} holds no certificate in PEM form.",
        (tls.certificate, text): f"{text} holds no private key in PEM form.",
        (tls.certificate, other): f"key {other} is not that of certificate {tls.certificate}.",
        (tls.certificate, locked): f"key {locked} is encrypted; one without a password is needed",
        (tls.certificate, none): f"{none} cannot be read: no such file or directory.",
    }
    with served() as here:
        for (certificate, key), message in cases.items():
            with pytest.raises(InputError) as refused:
                ApiServer(here.app, tls=Tls(certificate, key))
            assert str(refused.value).startswith(message)


def test_what_is_no_certificate_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a certificate")
    with pytest.raises(InputError, match="cannot be used"):
        Client("https://127.0.0.1", certificate=str(tmp_path / "text"))


def test_an_address_that_cannot_be_bound_is_reported() -> None:
    with served() as here, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 cannot be used: address already in use"):
            ApiServer(here.app, port)
        with pytest.raises(InputError, match=r"192\.0\.2\.1 cannot be used: cannot assign requested address"):
            ApiServer(here.app, port, "192.0.2.1")


def test_it_ends_although_somebody_listens() -> None:
    with served() as here, ApiServer(here.app) as server, Client(server.url) as client:
        here.tick(10.0)
        entries = client.listen(since=0)
        assert next(entries)
        here.service.hub.close()
        assert all(kind in ("decision", "event") for kind, _ in entries), "until it ends"


def test_a_handshake_that_does_not_come_ends_its_connection(tls: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections._WITHIN_S, connections.Progress.HEAD, 0.2)
    with served() as here, ApiServer(here.app, tls=tls) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10.0) as client:
            assert not client.recv(100)
        assert server.connections.refused == 1


def test_two_services_cannot_use_one_sqlite_store(tmp_path: Path) -> None:
    config = ServiceConfig((CLICKS,), f"sqlite:///{tmp_path}/service.db", port=0)
    message = "is used by another service; several can share a store in PostgreSQL only"
    with serving(config), pytest.raises(InputError, match=message), serving(config):
        pass
    with serving(config):
        pass
