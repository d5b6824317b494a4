"""One question to a Kafka broker, ours or anybody's: is it there, and which release does it run?

A warden has to know that its broker is up without a client library, so the question (ApiVersions, which every broker
since 2.4 answers before anything else) is put in Kafka's own protocol here. All else is left to a library.
"""

from __future__ import annotations

import contextlib
import io
import socket
import struct
from collections.abc import Iterator

from headgate.core.errors import EngineError, InputError, cause_of

TIMEOUT_S = 5.0
API_VERSIONS = 18
REQUEST_VERSION = 3
CLIENT = ("headgate", "1")
SUPPORTED_FEATURES_TAG = 0
MAX_ANSWER_BYTES = 1_000_000

# The highest metadata.version that each release supports, as `kafka.tools.StorageTool version-mapping` tells it.
RELEASES = {
    7: "3.3",
    8: "3.4",
    11: "3.5",
    14: "3.6",
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
}


def answers(bootstrap: str) -> bool:
    """Whether a Kafka broker answers at this address."""
    try:
        release(bootstrap)
    except EngineError:
        return False
    return True


def release(bootstrap: str, timeout_s: float = TIMEOUT_S) -> str:
    """The release of the first broker of a list that answers: ``4.3``, or that it is too old or too new to be told."""
    problems = []
    for host, port in addresses(bootstrap):
        try:
            return _release_name(_supported_metadata_version(host, port, timeout_s))
        except OSError as error:
            problems.append(f"{host}:{port}: {cause_of(error)}")
        except (struct.error, ValueError) as error:
            problems.append(f"{host}:{port}: what answers there is no Kafka broker ({error})")
    raise EngineError(f"no Kafka broker can be reached ({'; '.join(problems)}).")


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Hosts and ports from ``HOST:PORT``, or several with commas between.

    >>> addresses("127.0.0.1:9092,[::1]:9093")
    [('127.0.0.1', 9092), ('::1', 9093)]
    """
    found = []
    for part in bootstrap.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise InputError(f"the bootstrap address {part!r} is not understood; write HOST:PORT, as 127.0.0.1:9092.")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found


def _release_name(level: int | None) -> str:
    if level is None:
        return "before 3.3, or with ZooKeeper"
    newest = max(RELEASES)
    if level > newest:
        return f"newer than {RELEASES[newest]}"
    return RELEASES[min(known for known in RELEASES if known >= level)]


# ----------------------------------------------------------------------------------------------------------- protocol


def _supported_metadata_version(host: str, port: int, timeout_s: float) -> int | None:
    with contextlib.closing(socket.create_connection((host, port), timeout_s)) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(_request())
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", _exactly(stream, 4))
            if not 4 < size <= MAX_ANSWER_BYTES:
                raise ValueError(f"an answer of {size} bytes")
            return dict(_supported_features(io.BytesIO(_exactly(stream, size)))).get("metadata.version")


def _request() -> bytes:
    # Header: key, version, correlation id, client id, no tags. Body: the client's name and version, no tags.
    name = CLIENT[0].encode()
    header = struct.pack(f">hhih{len(name)}sb", API_VERSIONS, REQUEST_VERSION, 0, len(name), name, 0)
    body = b"".join(bytes([len(text) + 1]) + text.encode() for text in CLIENT) + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def _supported_features(answer: io.BytesIO) -> Iterator[tuple[str, int]]:
    """The features a broker supports, each with its highest level; none from one that does not know the question."""
    _correlation, error = struct.unpack(">ih", _exactly(answer, 6))
    if error:
        return
    for _ in range(_unsigned(answer) - 1):
        _exactly(answer, 6)  # An API with its lowest and highest version,
        _skip_tags(answer)
    _exactly(answer, 4)  # the throttle time,
    for _ in range(_unsigned(answer)):
        tag, size = _unsigned(answer), _unsigned(answer)
        value = io.BytesIO(_exactly(answer, size))
        if tag == SUPPORTED_FEATURES_TAG:
            for _ in range(_unsigned(value) - 1):
                name = _exactly(value, _unsigned(value) - 1).decode()
                _lowest, highest = struct.unpack(">hh", _exactly(value, 4))
                _skip_tags(value)
                yield name, highest


def _exactly(stream: io.BufferedIOBase, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes where {size} were promised")
    return data


def _unsigned(stream: io.BufferedIOBase) -> int:
    """A number of as many bytes as it needs, seven bits in each."""
    value = 0
    for place in range(5):
        (byte,) = _exactly(stream, 1)
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value
    raise ValueError("a number without end")


def _skip_tags(stream: io.BufferedIOBase) -> None:
    for _ in range(_unsigned(stream)):
        _unsigned(stream)
        _exactly(stream, _unsigned(stream))
