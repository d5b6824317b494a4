"""Workloads of every kind, for properties that all of them have."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.workloads.placed import Placed
from headgate.workloads.shapes import Constant, Gaussian, Periodic, Ramp, Sine, Spike
from headgate.workloads.steps import Steps

RATES = st.floats(0, 1000)
LENGTHS = st.floats(0.1, 5000)
TIMES = st.floats(0, 5000)
SHAPES = st.one_of(
    st.builds(Constant, RATES),
    st.builds(Periodic, RATES, RATES, LENGTHS, LENGTHS),
    st.builds(Sine, RATES, RATES, LENGTHS),
    st.builds(Gaussian, RATES, RATES, TIMES, st.floats(10, 1000)),
    st.builds(Ramp, RATES, RATES, LENGTHS),
    st.builds(Spike, RATES, RATES, TIMES, LENGTHS),
)
WORKLOADS = st.one_of(
    SHAPES,
    st.builds(Placed, SHAPES, TIMES, LENGTHS),
    st.lists(st.tuples(LENGTHS, RATES), min_size=1, max_size=20).map(
        lambda steps: Steps(
            [sum(width for width, _ in steps[:i]) for i in range(len(steps) + 1)], [r for _, r in steps]
        )
    ),
)
