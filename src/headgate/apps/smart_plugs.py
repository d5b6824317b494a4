"""The load of each plug, household and house, predicted from its last readings (azimi, equation 5.1).

The prediction is half the mean plus half the median of the last n readings, sorted again for every new reading.
State is the last n readings of each place. A late reading is inserted by time, if it is still among the last n.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication
from headgate.apps.records.plugs import SCHEMA

READINGS = 1650
"""n of the document's first workload; 1,900 in its second."""


def results(events: DataFrame, readings: int = READINGS) -> DataFrame:
    places = f.array(
        _place("house", "house"),
        _place("household", "house", "household"),
        _place("plug", "house", "household", "plug"),
    )
    by_time = f.struct("at_ms", "number")
    last = f.max_by("load_w", by_time, readings).alias("last")
    histories = events.select("at_ms", "number", "load_w", f.inline(places)).groupBy("level", "place").agg(last)
    return histories.select("level", "place", f.size("last").alias("readings"), predicted("last").alias("load_w"))


def predicted(window: str) -> Column:
    """Return equation 5.1 over a column that holds a list."""
    count = f.size(window)
    mean = f.aggregate(window, f.lit(0.0), lambda total, load: total + load) / count
    ordered = f.array_sort(window)
    below = f.element_at(ordered, ((count + 1) / 2).cast("int"))
    above = f.element_at(ordered, (count / 2).cast("int") + 1)
    return (mean + (below + above) / 2) / 2


def _place(level: str, *fields: str) -> Column:
    return f.struct(f.lit(level).alias("level"), f.concat_ws("/", *fields).alias("place"))


SMART_PLUGS = StreamingApplication(
    name="smart-plugs",
    summary="predicted load of each plug, household and house from its last readings",
    document="azimi §5.1",
    data="real: debs2014-smartgrid",
    schema=SCHEMA,
    results=results,
    keys=("level", "place"),
    output_mode="update",
    stateful=True,
)
