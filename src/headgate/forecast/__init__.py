"""Load forecasters, one per file; each is found by its name. A forecast is a distribution."""

from headgate.forecast.base import (
    Forecast,
    Forecaster,
    brought_forecasters,
    forecaster_class,
    forecaster_names,
    make_forecaster,
)

__all__ = ["Forecast", "Forecaster", "brought_forecasters", "forecaster_class", "forecaster_names", "make_forecaster"]
