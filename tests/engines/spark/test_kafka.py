"""What asks a broker for the offsets of a source, through the driver."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from headgate.engines.spark.sources import KafkaOffsets


class GoneAdmin:
    """What is left of Kafka's client in a driver that does not answer."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def close(self, within: object) -> None:
        raise self._error


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("no answer")])
def test_closing_the_client_of_a_driver_that_is_gone_raises_nothing(error: Exception) -> None:
    offsets = object.__new__(KafkaOffsets)  # Making one takes a driver.
    offsets._admin, offsets._a_moment = GoneAdmin(error), None
    offsets.close()
