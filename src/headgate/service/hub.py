"""Passes new entries to listeners. Messages are numbered, so that a listener that was away can ask for the rest."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from headgate.core.errors import EngineError
from headgate.core.types import JSON, Instant

RETAINED = 2000
"""Messages retained for listeners that reconnect."""
MOST_WAITING = 1000
"""A listener that is behind by so many is disconnected: it reconnects and asks for the rest."""
MOST_LISTENERS = 500
"""Each has a connection and messages that wait for it."""


@dataclass(frozen=True, slots=True)
class Message:
    number: int
    at_s: Instant
    kind: str
    """``decision``, ``event`` or ``change``."""
    job: str
    """Empty if it concerns the service itself."""
    data: JSON


class Listener:
    """A subscriber, on an event loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Message | None] = asyncio.Queue(MOST_WAITING)

    async def next(self, within_s: float) -> Message | None:
        """Return the next message, or ``None`` if none came in time; ``EOFError`` once it is disconnected."""
        try:
            message = await asyncio.wait_for(self._queue.get(), within_s)
        except TimeoutError:
            return None
        if message is None:
            raise EOFError
        return message

    def send(self, message: Message | None) -> None:
        """Pass a message on; callable from any thread."""
        with suppress(RuntimeError):  # Its event loop is closed.
            self._loop.call_soon_threadsafe(self._put, message)

    def _put(self, message: Message | None) -> None:
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            message = None
        self._queue.put_nowait(message)


class Hub:
    """Passes new messages to all listeners; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.number = 0
        """The number of the newest message."""
        self._messages: deque[Message] = deque(maxlen=RETAINED)
        self._listeners: set[Listener] = set()
        self._is_closed = False

    def publish(self, at_s: Instant, kind: str, job: str, data: JSON) -> None:
        with self._lock:
            self.number += 1
            message = Message(self.number, at_s, kind, job, data)
            self._messages.append(message)
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener.send(message)

    def since(self, number: int) -> list[Message]:
        """Return the retained messages after a number."""
        with self._lock:
            return [message for message in self._messages if message.number > number]

    def refuse_if_full(self) -> None:
        """Refuse another listener before its stream begins; ``EngineError`` where there are too many."""
        with self._lock:
            count = len(self._listeners)
        if count >= MOST_LISTENERS:
            raise EngineError(f"{count} streams of events are open; at most {MOST_LISTENERS} are. Try again later.")

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """Yield a listener to all messages inside the block; to be used on an event loop.

        Once the hub is closed, a listener is disconnected at once: a stream whose headers were sent just before the
        close would otherwise never end.
        """
        listener = Listener()
        with self._lock:
            self._listeners.add(listener)
            is_closed = self._is_closed
        if is_closed:
            listener.send(None)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def close(self) -> None:
        """Disconnect all listeners, those to come as well."""
        with self._lock:
            self._is_closed = True
            listeners, self._listeners = tuple(self._listeners), set()
        for listener in listeners:
            listener.send(None)
