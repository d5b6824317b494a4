"""Measures of runs, and statistics over several of them."""

from headgate.lab.measures.measures import (
    Estimate,
    PairedDifference,
    RunMeasures,
    difference_in_words,
    estimate,
    is_noise,
    measures_of,
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
