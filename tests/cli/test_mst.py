"""headgate mst: what it refuses before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("steady-jb",), "unknown application 'steady-jb', did you mean 'steady-job'?"),
        (("steady-job", "--executors", "1,x"), "--executors '1,x' is not understood; write whole numbers with commas"),
        (("steady-job", "--executors", "3"), "executors 3 are too few; a curve needs at least 2 sizes."),
        (
            ("steady-job", "--validate", "2"),
            "executors 1,2,4,2 are not allowed; each must be at least 1 and",
        ),
        ((), "either one APP or --all is needed; write for example headgate mst steady-job."),
        (("grep", "--all"), "either one APP or --all is needed"),
        (("steady-job", "--cost", "soon"), "--cost: duration 'soon' is not understood"),
        (("steady-job", "--save", "no/such/folder.json"), "there is no folder no/such"),
    ],
)
def test_what_cannot_be_measured_is_told_before_a_cluster_is_started(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refused("mst", *arguments)
