"""What runs came to, in measures that people in the field know, and what is to be made of several of them."""

from headgate.lab.measures.measures import Measures, measures_of
from headgate.lab.measures.paired import Difference, difference_in_words, is_noise, paired_difference
from headgate.lab.measures.repeats import Estimate, estimate

__all__ = [
    "Difference",
    "Estimate",
    "Measures",
    "difference_in_words",
    "estimate",
    "is_noise",
    "measures_of",
    "paired_difference",
]
