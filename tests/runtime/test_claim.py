"""Two autoscalers on one application would fight."""

import pytest

from headgate.core.errors import InputError
from headgate.runtime.autoscaler import Claim


class Holder:
    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.stopped = 0
        claim.holder = self

    def stop(self) -> None:
        self.stopped += 1
        self.claim.release()


def test_a_second_autoscaler_is_refused_until_the_first_has_let_go() -> None:
    first = Claim.of("app-1")
    with pytest.raises(InputError, match="application app-1 is scaled by another autoscaler"):
        Claim.of("app-1")
    Claim.of("app-2").release()
    first.release()
    first.release()
    Claim.of("app-1").release()


def test_who_takes_over_stops_the_first_one() -> None:
    first = Holder(Claim.of("app-1"))
    second = Claim.of("app-1", take_over=True)
    assert first.stopped == 1
    first.claim.release()
    with pytest.raises(InputError, match="stop that one"):
        Claim.of("app-1")
    second.release()
