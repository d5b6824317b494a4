"""Every registered forecaster keeps the contract. A new one is found by itself; nothing is to be added here."""

from collections.abc import Callable

import pytest

from headgate.forecast import forecaster_names
from headgate.testing.forecasters import FORECASTER_CHECKS, ForecasterFactory, named_forecaster


@pytest.mark.parametrize("check", FORECASTER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", forecaster_names())
def test_forecaster(name: str, check: Callable[[ForecasterFactory], None]) -> None:
    check(named_forecaster(name))
