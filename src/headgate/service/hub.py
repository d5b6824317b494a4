"""What is new, for those who listen: each message has a number, so that a listener who was away asks for the rest."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from headgate.core.types import JSON, Instant

RETAINED = 2000
"""Messages that a listener who comes back can still be told."""
MOST_WAITING = 1000
"""A listener who is behind by so many is let go: it comes back and asks for the rest."""


@dataclass(frozen=True, slots=True)
class Message:
    number: int
    at_s: Instant
    kind: str
    """``decision``, ``event`` or ``change``."""
    job: str
    """Empty where it is about the service itself."""
    data: JSON


class Listener:
    """One who listens, on an event loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Message | None] = asyncio.Queue(MOST_WAITING)

    async def next(self, within_s: float) -> Message | None:
        """The next message, or ``None`` when none came in time; ``EOFError`` for one that was let go."""
        try:
            message = await asyncio.wait_for(self._queue.get(), within_s)
        except TimeoutError:
            return None
        if message is None:
            raise EOFError
        return message

    def tell(self, message: Message | None) -> None:
        """To be called from any thread."""
        with suppress(RuntimeError):  # Its event loop is closed: nobody listens any more.
            self._loop.call_soon_threadsafe(self._put, message)

    def _put(self, message: Message | None) -> None:
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            message = None
        self._queue.put_nowait(message)


class Hub:
    """Passes on what is new to all who listen; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._messages: deque[Message] = deque(maxlen=RETAINED)
        self._listeners: set[Listener] = set()

    def publish(self, at_s: Instant, kind: str, job: str, data: JSON) -> None:
        with self._lock:
            self._number += 1
            message = Message(self._number, at_s, kind, job, data)
            self._messages.append(message)
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener.tell(message)

    def since(self, number: int) -> list[Message]:
        """The messages after one, as far as they are kept."""
        with self._lock:
            return [message for message in self._messages if message.number > number]

    @property
    def number(self) -> int:
        """Of the newest message."""
        return self._number

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """Somebody who is told everything inside the block; to be used on an event loop."""
        listener = Listener()
        with self._lock:
            self._listeners.add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def close(self) -> None:
        """Let go of all who listen."""
        with self._lock:
            listeners, self._listeners = tuple(self._listeners), set()
        for listener in listeners:
            listener.tell(None)
