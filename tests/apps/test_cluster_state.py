"""What runs on a cluster, interval by interval."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from headgate.apps.cluster_tasks import NOWHERE, TaskClusterState

COLUMNS = ["window_end_ms", "job", "task", "machine", "cpu", "memory", "disk"]
INTERVAL_MS = 1000


def changes(*rows: tuple[int, int, int, int, float]) -> pd.DataFrame:
    """Rows of window end, job, task, machine and CPU; memory and disk are as the CPU."""
    return pd.DataFrame([(*row, row[4], row[4]) for row in rows], columns=COLUMNS)


def reported(snapshot: pd.DataFrame, scope: str) -> dict[str, tuple[float, float]]:
    rows = snapshot[snapshot["scope"] == scope]
    return {row.name_: (row.tasks, row.cpu) for row in rows.rename(columns={"name": "name_"}).itertuples()}


def test_a_task_counts_where_it_ran_last_and_no_more_when_it_ended() -> None:
    state = TaskClusterState.empty()
    first, second = state.snapshots(
        changes((1000, 1, 0, 7, 0.5), (1000, 1, 1, 8, 0.25), (2000, 1, 0, 8, 0.5), (2000, 1, 1, NOWHERE, 0.25)),
        INTERVAL_MS,
    )
    assert reported(first, "machine") == {"7": (1, 0.5), "8": (1, 0.25)}
    assert reported(second, "machine") == {"7": (0, 0.0), "8": (1, 0.5)}
    assert reported(second, "cluster")["total"] == (1, 0.5)
    assert reported(second, "cluster")["mean"] == (0.5, 0.25)


def test_an_interval_without_events_is_as_the_one_before() -> None:
    state = TaskClusterState.empty()
    snapshots = list(state.snapshots(changes((1000, 1, 0, 7, 0.5), (4000, 2, 0, 7, 0.5)), INTERVAL_MS))
    assert [int(each["window_end_ms"].iloc[0]) for each in snapshots] == [1000, 2000, 3000, 4000]
    assert [reported(each, "machine")["7"] for each in snapshots] == [(1, 0.5)] * 3 + [(2, 1.0)]


@pytest.mark.parametrize("saved", [False, True])
def test_a_state_that_was_saved_continues_as_if_it_had_not_been(saved: bool) -> None:
    random = np.random.default_rng(1)
    rows = [
        (
            1000 * (1 + step // 20),
            int(random.integers(5)),
            int(random.integers(4)),
            int(random.integers(-1, 6)),
            0.1,
        )
        for step in range(200)
    ]
    table = changes(*rows).drop_duplicates(["window_end_ms", "job", "task"], keep="last")
    whole = pd.concat(list(TaskClusterState.empty().snapshots(table, INTERVAL_MS)))
    state = TaskClusterState.empty()
    parts = []
    for _, part in table.groupby("window_end_ms"):
        parts += list(state.snapshots(part, INTERVAL_MS))
        state = TaskClusterState.from_bytes(state.to_bytes()) if saved else state
    pd.testing.assert_frame_equal(pd.concat(parts), whole)
