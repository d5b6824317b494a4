"""Tests on public traces are left out where those are not at hand."""

from __future__ import annotations

import pytest

from headgate.core.errors import InputError
from headgate.workloads.traces import trace_folder


def have_traces() -> bool:
    try:
        trace_folder()
    except InputError:
        return False
    return True


needs_traces = pytest.mark.skipif(
    not have_traces(), reason="the public traces are not here; set HEADGATE_TRACES to their folder"
)
