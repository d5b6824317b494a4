from __future__ import annotations

import shutil
import time

import pytest

from headgate.core.errors import EngineError
from headgate.local.prometheus import LocalPrometheus

needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="apt-get install prometheus")


@needs_prometheus
def test_a_prometheus_answers_while_it_runs_and_not_after() -> None:
    with LocalPrometheus([]) as prometheus:
        now = time.time()
        found = prometheus.over("vector(3)", now - 2, now, step_s=1.0)
        with pytest.raises(EngineError, match=r"^Prometheus at .* did not answer 'sum\('"):
            prometheus.over("sum(", now - 2, now, step_s=1.0)
    assert [value for _, value in found[""]] == [3.0, 3.0, 3.0]
    with pytest.raises(EngineError, match="not running"):
        _ = prometheus.url
