"""headgate app: the applications that can be run and given a load."""

from __future__ import annotations

import json

from tests.cli.commands import headgate


def test_all_applications_are_listed_with_where_they_are_from() -> None:
    printed = headgate("app", "list").stdout
    for name in ("smart-plugs", "click-fraud", "cluster-tasks", "hoeffding-tree", "nexmark-11"):
        assert name in printed
    assert "azimi §5.1" in printed


def test_the_list_can_be_had_as_json() -> None:
    listed = {row["name"]: row for row in json.loads(headgate("app", "list", "--json").stdout)}
    assert listed["grep"]["state"] == "none"
    assert listed["cluster-tasks"]["data"] == "real: google-cluster-2011"
    assert listed["rolling-count"] == {
        "name": "rolling-count",
        "summary": "how often each word was said in 9 s, every 3 s",
        "document": "imai §IV-A",
        "data": "generated",
        "state": "in Spark",
        "output_mode": "append",
        "watermark_s": 5.0,
        "keys": ["window_start_ms", "window_end_ms", "word"],
    }
