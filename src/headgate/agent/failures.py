"""When to say again that something still goes wrong."""

from __future__ import annotations

FIRST_AGAIN_AFTER_S = 60.0
LAST_AGAIN_AFTER_S = 3600.0


class Failures:
    """What goes wrong in a row is worth a word when it begins or changes, and after that less and less often.

    >>> failures = Failures()
    >>> [failures.is_worth_a_word("no such job.", now_s) for now_s in (0.0, 1.0, 60.0, 119.0, 180.0)]
    [True, False, True, False, True]
    >>> failures.is_worth_a_word("no such operator.", 181.0), failures.ended(), failures.ended()
    (True, True, False)
    """

    def __init__(self) -> None:
        self._said = ""
        self._wait_s = FIRST_AGAIN_AFTER_S
        self._again_s = 0.0

    def is_worth_a_word(self, told: str, now_s: float) -> bool:
        is_other = told != self._said
        if not is_other and now_s < self._again_s:
            return False
        self._wait_s = FIRST_AGAIN_AFTER_S if is_other else min(LAST_AGAIN_AFTER_S, 2 * self._wait_s)
        self._said, self._again_s = told, now_s + self._wait_s
        return True

    def ended(self) -> bool:
        """Go on from a success; whether something had gone wrong before it."""
        had_failed, self._said = bool(self._said), ""
        return had_failed
