"""Tests of the hub: what listeners receive."""

import asyncio
from contextlib import ExitStack

import pytest

from headgate.core.errors import EngineError
from headgate.service.hub import MOST_LISTENERS, Hub


def test_a_listener_that_comes_after_the_close_is_disconnected_at_once() -> None:
    """A stream's headers are sent before it listens; a close between the two would leave it open for good."""

    async def listen() -> None:
        hub = Hub()
        hub.close()
        with hub.listening() as listener:
            await listener.next(within_s=5.0)

    with pytest.raises(EOFError):
        asyncio.run(listen())


def test_there_are_at_most_so_many_listeners() -> None:
    async def listen() -> None:
        hub = Hub()
        with ExitStack() as streams:
            for _ in range(MOST_LISTENERS):
                hub.refuse_if_full()
                streams.enter_context(hub.listening())
            with pytest.raises(EngineError, match="500 streams of events are open; at most 500 are"):
                hub.refuse_if_full()
        hub.refuse_if_full()

    asyncio.run(listen())
