"""How the records of each application are made, without Spark: seeded, and the same whenever they are made again."""

from headgate.workloads.draws import Keys


class DrawnRecords:
    """The base of records that are drawn by their number."""

    def __init__(self, seed: int, keys: Keys) -> None:
        self._seed = seed
        self._keys = keys
