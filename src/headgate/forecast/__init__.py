"""Load forecasters, one per file; each is found by its name. A forecast is a distribution."""

from headgate.forecast.base import brought_forecasters, forecaster_class, forecaster_names, make_forecaster
from headgate.forecast.contract import Forecast, Forecaster

__all__ = ["Forecast", "Forecaster", "brought_forecasters", "forecaster_class", "forecaster_names", "make_forecaster"]
