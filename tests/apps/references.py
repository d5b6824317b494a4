"""What each application must give, computed from its records in plain Python: nothing of the applications is used."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

Event = dict[str, Any]
Row = dict[str, Any]


def windows(at_ms: int, length_ms: int, slide_ms: int) -> Iterator[tuple[int, int]]:
    """The windows a time lies in, by start and end."""
    start = at_ms - at_ms % slide_ms
    while start > at_ms - length_ms:
        yield start, start + length_ms
        start -= slide_ms


def counted(keys: Iterable[tuple[Any, ...]], *names: str) -> list[Row]:
    """A row for each different key, with how often it is there as the last of the names."""
    return [dict(zip(names, (*key, times), strict=True)) for key, times in Counter(keys).items()]


def grep(events: list[Event]) -> list[Row]:
    def found(text: str) -> bool:
        return any(word.startswith("stream") for word in text.split())

    return [{name: each[name] for name in ("number", "at_ms", "text")} for each in events if found(each["text"])]


def rolling_count(events: list[Event]) -> list[Row]:
    keys = [
        (start, end, word)
        for each in events
        for word in each["text"].split(" ")
        for start, end in windows(each["at_ms"], 9000, 3000)
    ]
    return counted(keys, "window_start_ms", "window_end_ms", "word", "times")


def unique_visitor(events: list[Event]) -> list[Row]:
    seen = {
        (start, end, each["url"], each["user"]) for each in events for start, end in windows(each["at_ms"], 9000, 3000)
    }
    return counted([key[:3] for key in seen], "window_start_ms", "window_end_ms", "url", "visitors")


def page_view(events: list[Event]) -> list[Row]:
    return counted([(each["url"],) for each in events], "url", "views")


def data_clean(events: list[Event]) -> list[Row]:
    return [
        {name: each[name] for name in ("number", "at_ms", "zip", "user")} | {"url": each["url"].split("?")[0]}
        for each in events
        if each["status"] == 200
    ]


def rolling_hashtag_count(events: list[Event]) -> list[Row]:
    keys = [
        (start, end, hashtag.lower())
        for each in events
        for hashtag in re.findall(r"#(\w+)", each["text"])
        for start, end in windows(each["at_ms"], 60_000, 5000)
    ]
    return counted(keys, "window_start_ms", "window_end_ms", "hashtag", "times")


def _ahead(event: Event) -> tuple[float, float]:
    metres = event["speed_m_per_s"] * 60
    track = math.radians(event["track_degrees"])
    north = event["latitude"] + metres * math.cos(track) / 111_195
    east = event["longitude"] + metres * math.sin(track) / 111_195 / math.cos(math.radians(event["latitude"]))
    return math.radians(north), math.radians(east)


def _distance_m(start: tuple[float, float], end: tuple[float, float]) -> float:
    """By the law of cosines, which the application does not use."""
    cosine = math.sin(start[0]) * math.sin(end[0]) + math.cos(start[0]) * math.cos(end[0]) * math.cos(start[1] - end[1])
    return 6_371_000 * math.acos(min(1.0, cosine))


def flight_distances(events: list[Event]) -> list[Row]:
    """Every flight against every other."""
    last: dict[tuple[int, int], dict[str, Event]] = defaultdict(dict)
    for each in sorted(events, key=lambda event: (event["at_ms"], event["number"])):
        for window in windows(each["at_ms"], 60_000, 5000):
            last[window][each["flight"]] = each
    rows = []
    for (start, end), flights in last.items():
        for flight in flights:
            for other in flights:
                distance_m = (
                    _distance_m(_ahead(flights[flight]), _ahead(flights[other])) if flight < other else math.inf
                )
                if distance_m < 20_000:
                    rows.append(
                        {
                            "window_start_ms": start,
                            "window_end_ms": end,
                            "flight": flight,
                            "other": other,
                            "distance_m": distance_m,
                        }
                    )
    return rows


def _of(events: list[Event], kind: str) -> list[Event]:
    return [{"number": each["number"], "at_ms": each["at_ms"], **each[kind]} for each in events if kind in each]


def nexmark_1(events: list[Event]) -> list[Row]:
    return [bid | {"price": round(bid["price"] * 0.908, 2)} for bid in _of(events, "bid")]


def nexmark_2(events: list[Event]) -> list[Row]:
    return [
        {name: bid[name] for name in ("number", "at_ms", "auction", "price")}
        for bid in _of(events, "bid")
        if bid["auction"] % 123 == 0
    ]


def nexmark_3(events: list[Event]) -> list[Row]:
    persons = {person["id"]: person for person in _of(events, "person") if person["state"] in {"OR", "ID", "CA"}}
    return [
        {"auction": auction["id"], "seller": auction["seller"]}
        | {name: persons[auction["seller"]][name] for name in ("name", "city", "state")}
        for auction in _of(events, "auction")
        if auction["category"] == 10 and auction["seller"] in persons
    ]


def nexmark_5(events: list[Event]) -> list[Row]:
    bids: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for bid in _of(events, "bid"):
        for window in windows(bid["at_ms"], 10_000, 5000):
            bids[window][bid["auction"]] += 1
    return [
        {"window_start_ms": start, "window_end_ms": end, "auction": auction, "bids": times}
        for (start, end), counts in bids.items()
        for auction, times in counts.items()
        if times == max(counts.values())
    ]


def nexmark_8(events: list[Event]) -> list[Row]:
    arrivals = {
        (*window, person["id"]): person["name"]
        for person in _of(events, "person")
        for window in windows(person["at_ms"], 10_000, 10_000)
    }
    opened = Counter(
        (*window, auction["seller"])
        for auction in _of(events, "auction")
        for window in windows(auction["at_ms"], 10_000, 10_000)
    )
    return [
        {"window_start_ms": key[0], "window_end_ms": key[1], "person": key[2], "name": name, "auctions": opened[key]}
        for key, name in arrivals.items()
        if key in opened
    ]


def nexmark_11(events: list[Event]) -> list[Row]:
    times: dict[int, list[int]] = defaultdict(list)
    for bid in _of(events, "bid"):
        times[bid["bidder"]].append(bid["at_ms"])
    rows: list[Row] = []
    for bidder, bids in times.items():
        session: Row | None = None
        for at_ms in sorted(bids):
            if session is None or at_ms >= session["window_end_ms"]:
                session = {"window_start_ms": at_ms, "window_end_ms": 0, "bidder": bidder, "bids": 0}
                rows.append(session)
            session["window_end_ms"] = at_ms + 10_000
            session["bids"] += 1
    return rows


def click_fraud(events: list[Event]) -> list[Row]:
    seen: dict[tuple[int, int, str, str], list[Event]] = defaultdict(list)
    for each in events:
        for window in windows(each["at_ms"], 60_000, 60_000):
            for subject in ("address", "user"):
                seen[*window, subject, each[subject]].append(each)
    rows = []
    for (start, end, subject, name), records in seen.items():
        other = "user" if subject == "address" else "address"
        clicks = sum(record["kind"] == "click" for record in records)
        displays = sum(record["kind"] == "display" for record in records)
        rows.append(
            {
                "window_start_ms": start,
                "window_end_ms": end,
                "subject": subject,
                "name": name,
                "others": len({record[other] for record in records}),
                "clicks": clicks,
                "displays": displays,
                "click_through_rate": clicks / displays if displays else None,
            }
        )
    return rows


def smart_plugs(events: list[Event], readings: int = 1650) -> list[Row]:
    histories: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in sorted(events, key=lambda event: (event["at_ms"], event["number"])):
        house, household, plug = each["house"], each["household"], each["plug"]
        histories["house", f"{house}"].append(each["load_w"])
        histories["household", f"{house}/{household}"].append(each["load_w"])
        histories["plug", f"{house}/{household}/{plug}"].append(each["load_w"])
    rows = []
    for (level, place), history in histories.items():
        last = history[-readings:]
        predicted = (statistics.fmean(last) + statistics.median(last)) / 2
        rows.append({"level": level, "place": place, "readings": len(last), "load_w": predicted})
    return rows


def cluster_tasks(events: list[Event]) -> list[Row]:
    """Event by event, with a table of tasks. An interval is reported when it is over, the last one too."""
    running: dict[tuple[int, int], Event] = {}
    machines: set[int] = set()
    rows: list[Row] = []
    end_ms: int | None = None
    for each in sorted(events, key=lambda event: (event["trace_us"], event["event"] != 1)):
        if each["event"] in {0, 7}:
            continue
        at_ms = each["trace_us"] // 1000
        while end_ms is not None and at_ms >= end_ms:
            rows.extend(_cluster_rows(end_ms, running, machines))
            end_ms += 900_000
        if end_ms is None:
            end_ms = (at_ms - 600_000) // 900_000 * 900_000 + 900_000 + 600_000
        task = (each["job"], each["task"])
        if each["event"] in {1, 8}:
            running[task] = each
        else:
            running.pop(task, None)
    if end_ms is not None:
        rows.extend(_cluster_rows(end_ms, running, machines))
    return rows


def _cluster_rows(end_ms: int, running: dict[tuple[int, int], Event], machines: set[int]) -> list[Row]:
    machines |= {task["machine"] for task in running.values()}
    measures = ("tasks", "cpu", "memory", "disk")
    totals = {machine: dict.fromkeys(measures, 0.0) for machine in machines}
    for task in running.values():
        total = totals[task["machine"]]
        total["tasks"] += 1
        for measure in measures[1:]:
            total[measure] += task.get(measure) or 0.0
    rows = [{"scope": "machine", "name": str(machine), **total} for machine, total in totals.items()]
    columns = {measure: [total[measure] for total in totals.values()] for measure in measures}
    figures: dict[str, Callable[[list[float]], float]] = {
        "total": sum,
        "mean": statistics.fmean,
        "median": statistics.median,
        **{f"p{share}": lambda values, share=share: float(np.percentile(values, share)) for share in (75, 90, 95, 99)},  # type: ignore[misc]
    }
    for name, figure in figures.items():
        rows.append({"scope": "cluster", "name": name} | {key: figure(values) for key, values in columns.items()})
    return [{"window_end_ms": end_ms, **row} for row in rows]


def hoeffding_tree(batches: list[list[Event]]) -> list[Row]:
    """river's own tree, one example after the other; it may grow between batches only."""
    from river.tree import HoeffdingTreeClassifier

    tree: Any = HoeffdingTreeClassifier(
        grace_period=10**9, leaf_prediction="mc", delta=1e-7, tau=0.05, min_branch_fraction=0.01, merit_preprune=False
    )
    rows = []
    for batch, examples in enumerate(batches):
        attributes = [dict(enumerate(example["attributes"])) for example in examples]
        for example, values in zip(examples, attributes, strict=True):
            row = {name: example[name] for name in ("number", "at_ms", "label")}
            rows.append(row | {"predicted": tree.predict_one(values) or 0, "batch": batch})
        for example, values in zip(examples, attributes, strict=True):
            tree.learn_one(values, example["label"])
        _grow(tree, tree._root, None, None)
    return rows


def _grow(tree: Any, node: Any, parent: Any, branch: int | None) -> None:
    if hasattr(node, "children"):
        for index, child in enumerate(list(node.children)):
            _grow(tree, child, node, index)
    elif node.total_weight - node.last_split_attempt_at >= 200:
        tree._attempt_to_split(node, parent, branch)
        node.last_split_attempt_at = node.total_weight


REFERENCES: dict[str, Callable[[list[Event]], list[Row]]] = {
    "smart-plugs": smart_plugs,
    "click-fraud": click_fraud,
    "cluster-tasks": cluster_tasks,
    "grep": grep,
    "rolling-count": rolling_count,
    "unique-visitor": unique_visitor,
    "page-view": page_view,
    "data-clean": data_clean,
    "rolling-hashtag-count": rolling_hashtag_count,
    "flight-distances": flight_distances,
    "nexmark-1": nexmark_1,
    "nexmark-2": nexmark_2,
    "nexmark-3": nexmark_3,
    "nexmark-5": nexmark_5,
    "nexmark-8": nexmark_8,
    "nexmark-11": nexmark_11,
}
