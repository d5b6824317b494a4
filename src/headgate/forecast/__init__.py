"""Load forecasters, one per file, each found by its name. A forecast is a distribution for every step ahead.

The names exported here are what the author of a forecaster needs.
"""

from headgate.core.types import JSON
from headgate.forecast.base import (
    EvenGrid,
    FloatArray,
    Forecast,
    Forecaster,
    ForecasterBase,
    brought_forecasters,
    forecaster_class,
    forecaster_names,
    make_forecaster,
    register,
)
from headgate.policies.frame.settings import PositiveSeconds, Seconds, Settings, Share

__all__ = [
    "JSON",
    "EvenGrid",
    "FloatArray",
    "Forecast",
    "Forecaster",
    "ForecasterBase",
    "PositiveSeconds",
    "Seconds",
    "Settings",
    "Share",
    "brought_forecasters",
    "forecaster_class",
    "forecaster_names",
    "make_forecaster",
    "register",
]
