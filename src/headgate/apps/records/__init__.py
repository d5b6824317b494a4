"""Generators of the records of each application, without Spark: seeded and reproducible."""

from headgate.workloads.draws import Keys


class DrawnRecords:
    """The base of records that are drawn by their number."""

    def __init__(self, seed: int, keys: Keys) -> None:
        self._seed = seed
        self._keys = keys
