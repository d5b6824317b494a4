"""Pairs of flights that will be close in a minute, from their reports of the last minute, every five seconds.

Positions are extrapolated from the last report of each flight in a window. Comparing all pairs would be quadratic;
here the earth is cut into strips along the parallels, as high as the largest distance, so that only flights of the
same or of neighbouring strips are compared, in each strip separately.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import WINDOW, StreamingApplication, window_bounds, window_of
from headgate.apps.records.flights import METRES_PER_DEGREE, SCHEMA

WINDOW_S = 60
SLIDE_S = 5
AHEAD_S = 60
"""How far ahead positions of flights are predicted after their last report."""
CLOSE_M = 20_000
EARTH_RADIUS_M = 6_371_000
STRIP_DEGREES = CLOSE_M / METRES_PER_DEGREE * 1.001
"""Slightly higher than the distance, so that rounding loses no pair."""


def results(events: DataFrame) -> DataFrame:
    ahead = _ahead().alias("ahead")
    reports = events.select("at", "flight", f.struct("at_ms", "number").alias("order"), ahead)
    latest = reports.groupBy(window_of(WINDOW_S, SLIDE_S).alias("window"), "flight").agg(
        f.max_by("ahead", "order").alias("ahead")
    )
    strip = f.floor(f.col("ahead.latitude") / STRIP_DEGREES)
    # A flight counts in its own strip and in the strip below; a pair is taken from the lower of its two strips.
    strips = latest.select(
        "window", f.explode(f.array(strip, strip - 1)).alias("strip"), _flight(strip).alias("flight")
    )
    together = strips.groupBy("window", "strip").agg(f.sort_array(f.collect_list("flight")).alias("flights"))
    pairs = together.select("window", "strip", f.explode("flights").alias("one"), "flights").select(
        "window", "strip", "one", f.explode("flights").alias("other")
    )
    distance_m = _distance_m("one", "other").alias("distance_m")
    return (
        pairs.where("one.flight < other.flight and strip = least(one.strip, other.strip)")
        .select(*window_bounds(), "one.flight", f.col("other.flight").alias("other"), distance_m)
        .where(f.col("distance_m") < CLOSE_M)
    )


def _ahead() -> Column:
    """Return the position of a flight that continues straight ahead."""
    degrees = f.col("speed_m_per_s") * AHEAD_S / METRES_PER_DEGREE
    track = f.radians("track_degrees")
    north = f.col("latitude") + degrees * f.cos(track)
    east = f.col("longitude") + degrees * f.sin(track) / f.cos(f.radians("latitude"))
    return f.struct(north.alias("latitude"), east.alias("longitude"))


def _flight(strip: Column) -> Column:
    return f.struct("flight", "ahead.latitude", "ahead.longitude", strip.alias("strip"))


def _distance_m(first: str, other: str) -> Column:
    """Return the great-circle distance, by the haversine formula."""
    from_north, to_north = (f.radians(f"{side}.latitude") for side in (first, other))
    half_north = (to_north - from_north) / 2
    half_east = (f.radians(f"{other}.longitude") - f.radians(f"{first}.longitude")) / 2
    chord = f.pow(f.sin(half_north), 2) + f.cos(from_north) * f.cos(to_north) * f.pow(f.sin(half_east), 2)
    return 2 * EARTH_RADIUS_M * f.asin(f.sqrt(chord))


FLIGHT_DISTANCES = StreamingApplication(
    name="flight-distances",
    summary="pairs of flights that will be within 20 km in a minute, from 60 s, every 5 s",
    document="imai §IV-A",
    schema=SCHEMA,
    results=results,
    keys=(*WINDOW, "flight", "other"),
    watermark_s=5.0,
    stateful=True,
)
