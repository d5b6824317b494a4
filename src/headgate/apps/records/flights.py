"""Positions of generated flights: each flies straight ahead, and turns back before it leaves its region."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.workloads.draws import Keys, draws
from headgate.workloads.payloads import Record

SCHEMA = (
    "number BIGINT NOT NULL, at_ms BIGINT NOT NULL, flight STRING NOT NULL, latitude DOUBLE NOT NULL, "
    "longitude DOUBLE NOT NULL, speed_m_per_s DOUBLE NOT NULL, track_degrees DOUBLE NOT NULL"
)
REGION_DEGREES = 4.0
"""Flights begin in a square of this size around 50° north, 8° east."""
_TURN_MS = 600_000
"""The time after which a flight turns back."""
METRES_PER_DEGREE = 111_195.0


class Positions:
    """The key is the flight; how often each reports follows the skew of keys."""

    def __init__(self, seed: int, keys: Keys) -> None:
        self._keys = keys
        latitude, longitude, speed, track = (draws(seed, stream, 0, keys.count) for stream in (1, 2, 3, 4))
        self._latitude = 50 + (latitude - 0.5) * REGION_DEGREES
        self._longitude = 8 + (longitude - 0.5) * REGION_DEGREES
        self._speed = 150 + 100 * speed
        self._track = 180 * track

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        flights = self._keys.of(first, len(at_ms))
        turns, since_ms = np.divmod(at_ms, _TURN_MS)
        back = turns % 2 == 1
        on_the_way_s = np.where(back, _TURN_MS - since_ms, since_ms) / 1000
        degrees = self._speed[flights] * on_the_way_s / METRES_PER_DEGREE
        track = np.radians(self._track[flights])
        latitude = self._latitude[flights] + degrees * np.cos(track)
        longitude = self._longitude[flights] + degrees * np.sin(track) / np.cos(np.radians(self._latitude[flights]))
        rows = zip(
            at_ms.tolist(),
            flights.tolist(),
            latitude.tolist(),
            longitude.tolist(),
            self._speed[flights].tolist(),
            (self._track[flights] + np.where(back, 180, 0)).tolist(),
            strict=True,
        )
        return [
            Record(
                b"F%d" % flight,
                f'{{"number":{number},"at_ms":{due_ms},"flight":"F{flight}","latitude":{north:.6f},'
                f'"longitude":{east:.6f},"speed_m_per_s":{speed:.2f},"track_degrees":{towards:.2f}}}'.encode(),
            )
            for number, (due_ms, flight, north, east, speed, towards) in enumerate(rows, start=first)
        ]
