"""Tests of the hub: what listeners receive."""

import asyncio

import pytest

from headgate.service.hub import Hub


def test_a_listener_that_comes_after_the_close_is_disconnected_at_once() -> None:
    """A stream's headers are sent before it listens; a close between the two would leave it open for good."""

    async def listen() -> None:
        hub = Hub()
        hub.close()
        with hub.listening() as listener:
            await listener.next(within_s=5.0)

    with pytest.raises(EOFError):
        asyncio.run(listen())
