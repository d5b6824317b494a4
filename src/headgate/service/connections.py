"""Connections of a server: how many there may be, and how long each may take to send its request.

uvicorn limits neither: a connection that never sends its request stays for ever, and one that cannot be accepted for
want of file descriptors is tried again without end. Here a connection is counted from the moment it is accepted, before
any handshake. When there are too many, those that have not sent a request yet are closed first, the oldest first.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 4000
SHARE_OF_CLIENT = 0.5
"""The share of all connections that one address may have; agents may all come through one proxy."""
SPARE_FILES = 32
"""File descriptors left for databases, pages and files."""
FEWEST_CONNECTIONS = 16
MOST_CLOSING = 16
"""Connections that were shut down and are not closed yet; with so many, no other is accepted for the moment."""
CLOSES_WITHIN_S = 1.0
ACCEPTED_AT_ONCE = 16
"""Connections accepted before others are served."""
HEAD_WITHIN_S = 10.0
BODY_WITHIN_S = 30.0
KEEP_ALIVE_S = 20
"""Longer than most agents wait between two reports, which else would connect each time."""
LONGEST_HEAD = 32_768
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Progress(Enum):
    """What a connection waits for."""

    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    """Ours: it has sent its request."""
    NOTHING = "nothing"
    """It may send another request, and uvicorn closes it if it does not."""
    END = "end"
    """It was shut down."""


_WITHIN_S = {Progress.HEAD: HEAD_WITHIN_S, Progress.BODY: BODY_WITHIN_S}


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    address: str
    since_s: float
    progress: Progress = Progress.HEAD


def most_connections() -> int:
    """Return how many connections there may be, by the number of files that this process may have open."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        used = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:  # Not on Linux.
        used = SPARE_FILES
    return max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, limit - used - SPARE_FILES - MOST_CLOSING))


class Connections:
    """The open connections of one server; used on its event loop only."""

    def __init__(self, most: int | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.most = most_connections() if most is None else most
        self._most_of_client = max(FEWEST_CONNECTIONS // 2, round(SHARE_OF_CLIENT * self.most))
        self._now = now
        self._open: dict[int, _Connection] = {}
        """By their file descriptors."""
        self._of_client: Counter[str] = Counter()
        self._ended_s: deque[float] = deque(maxlen=MOST_CONNECTIONS)
        """When connections were shut down."""
        self.refused = 0
        """Connections that were closed because there were too many, or because they sent nothing."""

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, accepted: socket.socket, address: str) -> bool:
        """Register a connection; when there are too many, others are closed for it, or it is refused."""
        if len(self._open) >= self.most:
            self._forget_closed()
        has_room = self._of_client[address] < self._most_of_client or self._shut_down_one(address)
        if has_room and len(self._open) >= self.most:
            has_room = self._shut_down_one(self._busiest_client())
        if not has_room:
            self.refused += 1
            return False
        self.forget(accepted.fileno())
        self._open[accepted.fileno()] = _Connection(accepted, address, self._now())
        self._of_client[address] += 1
        return True

    @property
    def may_accept(self) -> bool:
        """Whether another connection can be accepted before those that were shut down are closed."""
        while self._ended_s and self._now() - self._ended_s[0] > CLOSES_WITHIN_S:
            self._ended_s.popleft()
        if len(self._ended_s) < MOST_CLOSING:
            return True
        self._forget_closed()
        since_s = self._ended_s[0]
        closing = (entry for entry in self._open.values() if entry.progress is Progress.END)
        return sum(entry.since_s >= since_s for entry in closing) < MOST_CLOSING

    def _busiest_client(self) -> str:
        waiting = (entry for entry in self._open.values() if entry.progress in (Progress.HEAD, Progress.NOTHING))
        busiest = Counter(connection.address for connection in waiting).most_common(1)
        return busiest[0][0] if busiest else ""

    def _shut_down_one(self, address: str) -> bool:
        """Shut down the connection of a client that has waited longest for a request, if one does."""
        found = [connection for connection in self._open.values() if connection.address == address]
        for progress in (Progress.HEAD, Progress.NOTHING):
            waiting = [connection for connection in found if connection.progress is progress]
            if waiting:
                self._shut_down(min(waiting, key=lambda connection: connection.since_s))
                return True
        return False

    def _shut_down(self, connection: _Connection) -> None:
        self.refused += 1
        connection.progress, connection.since_s = Progress.END, self._now()
        self._ended_s.append(connection.since_s)
        with contextlib.suppress(OSError):
            # The event loop sees its end, and closes it.
            connection.socket.shutdown(socket.SHUT_RDWR)

    def note(self, file: int, progress: Progress) -> None:
        """Note what a connection waits for now."""
        connection = self._open.get(file)
        if connection is not None and connection.progress not in (progress, Progress.END):
            connection.progress, connection.since_s = progress, self._now()

    def forget(self, file: int) -> None:
        if (connection := self._open.pop(file, None)) is not None:
            self._of_client[connection.address] -= 1
            if not self._of_client[connection.address]:
                del self._of_client[connection.address]

    def sweep(self) -> None:
        """Shut down the connections that take too long; called about once a second."""
        self._forget_closed()
        now_s = self._now()
        for connection in list(self._open.values()):
            if now_s - connection.since_s > _WITHIN_S.get(connection.progress, float("inf")):
                self._shut_down(connection)

    def _forget_closed(self) -> None:
        for file, connection in list(self._open.items()):
            if connection.socket.fileno() != file:
                self.forget(file)


class GuardedSocket(socket.socket):
    """A listening socket that gives only the connections that may be served."""

    connections: Connections | None = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._in_reserve = os.open(os.devnull, os.O_RDONLY)
        """A file to close when a connection can be accepted only to close it."""
        self._accepted = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection that may be served; ``BlockingIOError`` where there is none."""
        while True:
            if self._accepted >= ACCEPTED_AT_ONCE or not (self.connections is None or self.connections.may_accept):
                raise BlockingIOError
            if self._accepted == 0:
                asyncio.get_running_loop().call_soon(self._begin_round)
            self._accepted += 1
            try:
                accepted, address = super().accept()
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                self._refuse_one()
                raise BlockingIOError from error
            if self.connections is None or self.connections.admit(accepted, str(address[0])):
                return accepted, address
            accepted.close()

    def _begin_round(self) -> None:
        self._accepted = 0

    def _refuse_one(self) -> None:
        """Take a connection off the queue without serving it: otherwise the event loop would find it again at once."""
        os.close(self._in_reserve)
        with contextlib.suppress(OSError):
            accepted, _ = super().accept()
            accepted.close()
        self._in_reserve = os.open(os.devnull, os.O_RDONLY)

    def close(self) -> None:
        if self._in_reserve >= 0:
            os.close(self._in_reserve)
            self._in_reserve = -1
        super().close()


class GuardedProtocol(H11Protocol):
    """uvicorn's protocol, which reports what each connection waits for."""

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(**settings)
        self._of = connections
        self._file = -1

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._file = transport.get_extra_info("socket").fileno()
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._of.forget(self._file)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note()

    def _note(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            progress = Progress.BODY
        elif self.conn.their_state is not h11.IDLE:
            progress = Progress.ANSWER
        else:
            progress = Progress.HEAD if self.conn.trailing_data[0] or self.cycle is None else Progress.NOTHING
        self._of.note(self._file, progress)


class GuardedServer(uvicorn.Server):
    """uvicorn's server, which closes connections that take too long."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._connections.sweep()
        return await super().on_tick(counter)


SEEN_AGAIN_S = 60.0
MOST_MESSAGES = 5


class Seldom(logging.Filter):
    """Lets each message pass a few times per minute: requests must not be able to fill the disk.

    >>> filtering = Seldom(lambda: 0.0)
    >>> record = logging.LogRecord("x", logging.WARNING, "", 0, "Invalid HTTP request received.", (), None)
    >>> [filtering.filter(record) for _ in range(7)]
    [True, True, True, True, True, False, False]
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._began_s = float("-inf")
        self._seen: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        now_s = self._now()
        if now_s - self._began_s >= SEEN_AGAIN_S:
            self._began_s, self._seen = now_s, Counter()
        # By the text without its arguments: there are few of them.
        text = str(record.msg)[:100]
        self._seen[text] += 1
        if self._seen[text] == MOST_MESSAGES:
            record.msg = f"{record.msg} (this is not logged again for a minute)"
        return self._seen[text] <= MOST_MESSAGES


_SELDOM = Seldom()


def log_seldom() -> None:
    """Limit the messages that uvicorn and the event loop log about requests."""
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        if _SELDOM not in logger.filters:
            logger.addFilter(_SELDOM)
