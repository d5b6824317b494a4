"""An auction house after Nexmark: of fifty events, one is a new person, three are new auctions and 46 are bids.

New persons and auctions depend on the number of an event alone, so any range of events can be generated at any time.
Half of the bids are on the hot auction, three of four bids are by the hot bidder and three of four auctions by the hot
seller (hot ratios 2, 4 and 4); each hundredth auction or person is hot until the next hundredth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headgate.apps.records import DrawnRecords
from headgate.workloads.draws import draws
from headgate.workloads.payloads import Record

SCHEMA = (
    "number BIGINT NOT NULL, at_ms BIGINT NOT NULL, "
    "person STRUCT<id: BIGINT, name: STRING, city: STRING, state: STRING>, "
    "auction STRUCT<id: BIGINT, seller: BIGINT, category: INT, reserve: BIGINT>, "
    "bid STRUCT<auction: BIGINT, bidder: BIGINT, price: BIGINT>"
)
PERSONS, AUCTIONS, ROUND = 1, 3, 50
"""Persons and auctions among ``ROUND`` events; the others are bids."""
HOT_AUCTION_RATIO, HOT_SELLER_RATIO, HOT_BIDDER_RATIO = 2, 4, 4
"""All but one in this many choose the hot auction, seller or bidder."""
HOT_EVERY = 100
FIRST_ID = 1000
ACTIVE_PERSONS, OPEN_AUCTIONS = 1000, 100
"""The number of newest ones from which the others are drawn."""
FIRST_CATEGORY, CATEGORIES = 10, 5
_NAMES = ("Ada", "Bela", "Chidi", "Dana", "Emre", "Fumi", "Goran", "Hana")
_CITIES = (
    ("Portland", "OR"),
    ("Boise", "ID"),
    ("Fresno", "CA"),
    ("Seattle", "WA"),
    ("Tucson", "AZ"),
    ("Cheyenne", "WY"),
)
Numbers = NDArray[np.int64]


class NexmarkEvents(DrawnRecords):
    """The key is the auction that is opened or bid on, or the person; the hot ratios make the skew.

    >>> from headgate.workloads.draws import Keys
    >>> kinds = [record.value.split(b'"')[5] for record in NexmarkEvents(0, Keys()).records(0, np.arange(50))]
    >>> kinds.count(b"person"), kinds.count(b"auction"), kinds.count(b"bid")
    (1, 3, 46)
    """

    def records(self, first: int, at_ms: NDArray[np.int64]) -> Sequence[Record]:
        numbers = np.arange(first, first + len(at_ms))
        rounds, place = np.divmod(numbers, ROUND)
        newest_person = rounds
        newest_auction = np.maximum(rounds * AUCTIONS + np.minimum(place, AUCTIONS) - 1, 0)
        kind = np.where(place < PERSONS, 0, np.where(place < PERSONS + AUCTIONS, 1, 2))
        hot_ratio = np.where(kind == 1, HOT_SELLER_RATIO, HOT_BIDDER_RATIO)
        seller_or_bidder = _chosen(newest_person, hot_ratio, ACTIVE_PERSONS, *self._draws(1, first, at_ms))
        auction = _chosen(newest_auction, HOT_AUCTION_RATIO, OPEN_AUCTIONS, *self._draws(3, first, at_ms))
        worth, other = self._draws(5, first, at_ms)
        price = np.round(100 * 10 ** (6 * worth)).astype(np.int64)
        rows = zip(
            at_ms.tolist(),
            kind.tolist(),
            # The person or the auction that is new, or the auction that is bid on.
            (FIRST_ID + np.choose(kind, (newest_person, newest_auction, auction))).tolist(),
            (FIRST_ID + seller_or_bidder).tolist(),
            price.tolist(),
            (other * len(_NAMES) * len(_CITIES) * CATEGORIES).astype(np.int64).tolist(),
            strict=True,
        )
        return [
            Record(
                b"%d" % what,
                f'{{"number":{number},"at_ms":{due_ms},{_FORMS[kind](what, who, cents, drawn)}}}'.encode(),
            )
            for number, (due_ms, kind, what, who, cents, drawn) in enumerate(rows, start=first)
        ]

    def _draws(self, stream: int, first: int, at_ms: Numbers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        first_draws, other_draws = (draws(self._seed, each, first, len(at_ms)) for each in (stream, stream + 1))
        return first_draws, other_draws


def _chosen(
    newest: Numbers, hot_ratio: int | Numbers, active: int, hot: NDArray[np.float64], among: NDArray[np.float64]
) -> Numbers:
    """Return hot numbers or, by chance, any of the newest."""
    oldest = np.maximum(newest - active + 1, 0)
    drawn = oldest + (among * (newest - oldest + 1)).astype(np.int64)
    return np.where(hot * hot_ratio >= 1, newest // HOT_EVERY * HOT_EVERY, drawn)


def _person(person: int, who: int, price: int, drawn: int) -> str:
    city, state = _CITIES[drawn % len(_CITIES)]
    name = _NAMES[drawn // len(_CITIES) % len(_NAMES)]
    return f'"person":{{"id":{person},"name":"{name} {person}","city":"{city}","state":"{state}"}}'


def _auction(auction: int, seller: int, price: int, drawn: int) -> str:
    category = FIRST_CATEGORY + drawn % CATEGORIES
    return f'"auction":{{"id":{auction},"seller":{seller},"category":{category},"reserve":{price}}}'


def _bid(auction: int, bidder: int, price: int, drawn: int) -> str:
    return f'"bid":{{"auction":{auction},"bidder":{bidder},"price":{price}}}'


_FORMS = (_person, _auction, _bid)
"""Formats an event, by kind."""
