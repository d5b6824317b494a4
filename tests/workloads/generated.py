"""Workloads of every kind, for properties that all of them have."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.workloads import Workload
from headgate.workloads.composed import Clipped, Noisy, Placed, Scaled, Shifted, Sum
from headgate.workloads.shapes import Constant, Gaussian, Periodic, Ramp, Sine, Spike
from headgate.workloads.steps import Steps

RATES = st.floats(0, 1000)
LENGTHS = st.floats(0.1, 5000)
TIMES = st.floats(0, 5000)


def shapes(lengths: st.SearchStrategy[float]) -> st.SearchStrategy[Workload]:
    """Every shape, with times of such lengths between its turns."""
    return st.one_of(
        st.builds(Constant, RATES),
        st.builds(Periodic, RATES, RATES, lengths, lengths),
        st.builds(Sine, RATES, RATES, lengths),
        st.builds(Gaussian, RATES, RATES, TIMES, st.floats(10, 1000)),
        st.builds(Ramp, RATES, RATES, lengths),
        st.builds(Spike, RATES, RATES, TIMES, lengths),
    )


SHAPES = shapes(LENGTHS)
PLAIN = st.one_of(
    SHAPES,
    st.builds(Placed, SHAPES, TIMES, LENGTHS),
    st.lists(st.tuples(LENGTHS, RATES), min_size=1, max_size=20).map(
        lambda steps: Steps(
            [sum(width for width, _ in steps[:i]) for i in range(len(steps) + 1)], [r for _, r in steps]
        )
    ),
)
CALM = shapes(st.floats(50, 5000))
"""Shapes that do not turn thousands of times an hour: what is made of them looks at each turn."""
CHANGED = st.one_of(
    st.builds(Scaled, PLAIN, st.floats(0, 5)),
    st.builds(Shifted, PLAIN, st.floats(-1000, 5000)),
    st.builds(Clipped, CALM, st.floats(0, 400), st.floats(400, 2000)),
    st.builds(Noisy, CALM, st.floats(0, 1), st.floats(50, 2000), st.integers(0, 9)),
)
SUMS = st.lists(st.one_of(CALM, CHANGED), min_size=2, max_size=3).map(lambda parts: Sum(tuple(parts)))
WORKLOADS = st.one_of(PLAIN, CHANGED)
