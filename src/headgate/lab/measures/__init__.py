"""Measures of runs, and statistics over several of them."""

from headgate.lab.measures.measures import RunMeasures, measures_of
from headgate.lab.measures.repeats import (
    Estimate,
    PairedDifference,
    difference_in_words,
    estimate,
    is_noise,
    paired_difference,
)

__all__ = [
    "Estimate",
    "PairedDifference",
    "RunMeasures",
    "difference_in_words",
    "estimate",
    "is_noise",
    "measures_of",
    "paired_difference",
]
