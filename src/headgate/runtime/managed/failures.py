"""Classify the failure of a query in one sentence, and decide whether a restart can mend it.

Spark's message is a page of text with few significant words. An unknown failure is restarted: a query that fails again
and again without ending a batch is given up anyway (``Restarts.most_in_a_row``).

>>> classify_failure("... UnknownTopicOrPartitionException: This server does not host this topic-partition.").can_heal
False
>>> classify_failure("java.io.IOException: No space left on device").why
'the disk is full'
>>> str(classify_failure('Python Proxy. Return Message: Traceback:\\n  File "a.py", line 3\\nValueError: no such key'))
'it failed (ValueError: no such key)'
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from headgate.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Restarts:
    """How a query that failed is started again."""

    first_s: float = 1.0
    """The wait after the first failure."""
    longest_s: float = 60.0
    jitter: float = 0.2
    """A wait is longer or shorter by up to this share, so that not all jobs restart together."""
    most_in_a_row: int | None = 20
    """Consecutive failures without a finished batch before it gives up; ``None``: it never does."""

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.longest_s:
            raise InputError(
                f"a first wait of {self.first_s:g} s and a longest of {self.longest_s:g} s are not allowed; the first "
                "must be above 0 and at most the longest."
            )
        if not 0 <= self.jitter < 1:
            raise InputError(f"jitter {self.jitter:g} is not allowed; it must be at least 0 and below 1.")
        if self.most_in_a_row is not None and self.most_in_a_row < 0:
            raise InputError(f"{self.most_in_a_row} restarts in a row are not allowed; it must be at least 0.")


class Backoff:
    """How long to wait before a restart: twice as long each time, with jitter that is seeded.

    >>> waits = Backoff(Restarts(first_s=1.0, longest_s=60.0, jitter=0.0))
    >>> [waits.next_s() for _ in range(8)]
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    >>> waits.forget()
    >>> waits.next_s()
    1.0
    """

    def __init__(self, restarts: Restarts, seed: int = 0) -> None:
        self._restarts = restarts
        self._random = np.random.default_rng(seed)
        self.failures = 0
        """In a row."""

    @property
    def is_exhausted(self) -> bool:
        """Whether it has failed more often than is allowed."""
        most = self._restarts.most_in_a_row
        return most is not None and self.failures > most

    def next_s(self) -> float:
        """Count a failure and return the wait after it."""
        doubled_s = self._restarts.first_s * 2.0 ** min(self.failures, 60)
        self.failures += 1
        spread = 1.0 + self._restarts.jitter * float(self._random.uniform(-1.0, 1.0))
        return min(self._restarts.longest_s, doubled_s) * spread

    def forget(self) -> None:
        """The query made progress: the next failure counts as the first."""
        self.failures = 0


LONGEST = 300
"""Characters of Spark's message that are reported."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of a query."""

    why: str
    can_heal: bool
    message: str = ""
    """Spark's message, in one line."""

    def __str__(self) -> str:
        return f"{self.why} ({self.message})" if self.message and self.message != self.why else self.why


@dataclass(frozen=True, slots=True)
class _Known:
    words: str
    """A regular expression."""
    why: str
    can_heal: bool


_KNOWN = (
    _Known(r"No space left on device|ENOSPC|Disk quota exceeded", "the disk is full", True),
    _Known(
        r"UnknownTopicOrPartition|does not host this topic-partition|topic[^.\n]{0,80} (does not|doesn't) exist",
        "the topic does not exist",
        False,
    ),
    _Known(r"InvalidTopicException|InvalidTopic", "the topic's name is not allowed", False),
    _Known(
        r"(Sasl|SslAuthentication|TopicAuthorization|GroupAuthorization|ClusterAuthorization)\w*Exception",
        "the broker refuses the credentials",
        False,
    ),
    _Known(
        r"OffsetOutOfRange|Some data may have been lost|KAFKA_DATA_LOSS|failOnDataLoss",
        "records that were not read yet are gone from the topic",
        False,
    ),
    _Known(
        r"\[STATE_STORE_(KEY|VALUE)_(SCHEMA|ROW_FORMAT)[A-Z_]*|STATE_STORE_UNSUPPORTED|STATE_STORE_[A-Z_]*INCOMPATIBLE|"
        r"STREAMING_STATEFUL_OPERATOR_NOT_MATCH|STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
        "the state in the checkpoint does not fit the query",
        False,
    ),
    _Known(
        r"CHECKPOINT[A-Z_]*(MISMATCH|INCOMPATIBLE)|does not match the number of sources|"
        r"There are \[\d+\] sources in the checkpoint|MALFORMED_(LOG|CHECKPOINT)|detected a bad offset",
        "the checkpoint does not fit the query",
        False,
    ),
    _Known(
        r"ModuleNotFoundError: No module named '(headgate|pandas|pyarrow)",
        "Spark runs another Python than this one; set PYSPARK_PYTHON to the one that has headgate",
        False,
    ),
    _Known(
        r"AnalysisException|ParseException|\[UNRESOLVED_|\[TABLE_OR_VIEW_NOT_FOUND", "the query is not valid", False
    ),
    _Known(r"headgate\.core\.errors\.InputError: ", "what it was given cannot be used", False),
    _Known(
        r"CONCURRENT_STREAM_LOG_UPDATE|[Mm]ultiple streaming (queries|jobs)", "another run uses the checkpoint", False
    ),
    _Known(
        r"kafka[\w.]*TimeoutException|Failed to create new KafkaAdminClient|Connection to node|"
        r"DisconnectException|BrokerNotAvailable|LeaderNotAvailable|NotLeaderOr|No resolvable bootstrap",
        "the broker does not answer",
        True,
    ),
    _Known(r"ExecutorLostFailure|SparkException: Job aborted|FetchFailed", "a batch failed", True),
)


_RAISED = r"^\s*(\w+\.)*\w*(Error|Exception|Interrupt|Exit)\b(?!.*\bat\b \w+\.)"
"""The start of the last line of a Python traceback, which names the exception; the first lines say nothing."""
_TRACEBACK = "Traceback (most recent call last)"


def classify_failure(text: str) -> Failure:
    """Classify a failure by Spark's message; the most specific pattern comes first."""
    raised = list(re.finditer(_RAISED, text, re.MULTILINE))
    last = _line_of(text, raised[-1].start() if raised else 0)
    for known in _KNOWN:
        if (found := re.search(known.words, text)) is not None:
            line = _line_of(text, found.start())
            return Failure(known.why, known.can_heal, last if _TRACEBACK in line else line)
    return Failure("it failed", True, last)


def _line_of(text: str, at: int) -> str:
    """Return the line around a position, shortened if it is too long."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = " ".join(text[start : end if end >= 0 else None].split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
