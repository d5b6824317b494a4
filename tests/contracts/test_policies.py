"""Every registered policy keeps the contract. A new policy is found by itself; nothing is to be added here."""

from collections.abc import Callable

import pytest

from headgate.policies import policy_names
from headgate.testing.policies import POLICY_CHECKS, PolicyFactory, named_policy


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", policy_names())
def test_policy(name: str, check: Callable[[PolicyFactory], None]) -> None:
    check(named_policy(name))
