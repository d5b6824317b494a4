"""How the commands of the documentation are run as they are printed, page by page, by tests/live/test_doc_commands.py.

What is not named here is run to its end, which has to be a good one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.docs.blocks import Typed, blocks

SHELL = [block for block in blocks() if block.language in ("sh", "console")]


@dataclass(frozen=True)
class Ends:
    """A command that comes to its end."""

    says: str = ""
    """A pattern of what it prints."""
    as_printed: bool = False
    """Whether it prints what the page says behind it, but for addresses."""
    within_s: float = 150.0


@dataclass(frozen=True)
class Stopped:
    """A command that goes on, or lasts for minutes: stopped with Ctrl-C when it has shown that it is at work."""

    shows: str
    """A pattern of what it shows then."""
    says: str = ""
    """A pattern of what it says after Ctrl-C."""
    code: int = 130
    continues: bool = False
    """Whether it continues next to the commands that follow on its page, and is stopped after them."""
    seen_by: tuple[str, str] | None = None
    """Another command, and a pattern of what that one says once this one is at work."""
    within_s: float = 150.0


How = Ends | Stopped

DEMO = {"headgate serve --demo": Stopped(r"sign in with the token hg_\S+", code=0)}
MEASURING = Stopped(r"1 .* settling", "headgate: stopped; nothing is saved")
PAGES: Mapping[str, Mapping[str, How]] = {
    "README.md": {
        "make demo": Stopped(r"executors +[1-9] ready", r"headgate: stopped; what was done is in \S+"),
        "python examples/ten_lines.py": Ends(within_s=240.0),
        "headgate explain run.db": Ends(r"\d → \d"),
        **DEMO,
    },
    "CONTRIBUTING.md": {"make": Ends("make demo"), "make setup": Ends()},
    "docs/guides/applications.md": {
        "headgate app run page-view": Stopped(
            r"[1-9][\d,]* read\b",
            r"headgate: stopped; what was read is saved, and the same command with --folder \S+ continues the run\.\n"
            r"broker: +127\.0\.0\.1:\d+ is still up; headgate kafka down stops it",
        ),
    },
    "docs/guides/dashboard.md": DEMO,
    "docs/guides/deploy.md": {
        "headgate doctor --config": Ends("nothing is wrong"),
        "headgate doctor --service": Ends("nothing is wrong"),
        "headgate doctor --only": Ends("nothing is wrong"),
        "headgate doctor": Ends(r"nothing is wrong"),
    },
    "docs/guides/engines.md": {
        "headgate agent": Stopped(
            "clicks/count: reporting for", code=0, seen_by=("headgate history clicks", "count joined at size 2")
        )
    },
    "docs/guides/flink.md": {
        "headgate autoscale-flink --url http://127.0.0.1:48101 --job clicks --objective": Stopped(
            r"now +events: ", "why: headgate explain clicks.db", code=0
        ),
        "headgate autoscale-flink --url http://127.0.0.1:48101 --job clicks --policy ds2": Stopped(
            r"now +events: ", code=0
        ),
        "headgate flink provide": Stopped("starts and stops TaskManagers of http", code=0, continues=True),
        "headgate autoscale-flink --url http://127.0.0.1:48101 --job clicks --provider http": Stopped(
            r"now +events: ", code=0
        ),
        "headgate agent": Stopped(
            "clicks/Calc: reporting for", code=0, seen_by=("headgate history clicks", "Calc joined at size 2")
        ),
    },
    "docs/guides/flink-cluster.md": {
        "headgate flink up": Ends(as_printed=True),
        "headgate flink status": Ends(as_printed=True),
        "headgate flink down": Ends(as_printed=True),
        "headgate flink run slow-middle": Ends(r"middle runs at \S+ as [0-9a-f]{32}"),
        "headgate load": Stopped("acknowledged", "stopped early: .* acknowledged, 0 failed", continues=True),
        "headgate autoscale-flink --url http://127.0.0.1:48101 --job middle": Ends(
            r"Calc +1 → 2: .*why: headgate explain middle.db"
        ),
        "headgate flink run nexmark-5": Ends(r"\d+ results, all as a batch computes them"),
        "headgate flink run click-fraud": Ends(r"clicks runs at \S+ as [0-9a-f]{32}"),
    },
    "docs/guides/kafka.md": {
        "headgate kafka up": Ends(as_printed=True),
        "headgate kafka topic": Ends(as_printed=True),
        "headgate kafka status --bootstrap": Ends("up at .*, Kafka "),
        "headgate kafka status": Ends(as_printed=True),
        "headgate kafka down": Ends(as_printed=True),
        "headgate kafka connector": Ends(r"^(\S+\.jar,){3}\S+\.jar$"),
        "spark-submit --jars": Ends("the connector is there"),
    },
    "docs/guides/break.md": {
        "headgate lab break": Ends("cases tried; the files are in break-hpa"),
        "headgate lab run": Ends("1 runs in lab/hpa-1"),
    },
    "docs/guides/lab.md": {
        "headgate lab run": Ends(r"48 runs in lab/my; look again with: headgate lab results lab/my"),
        "headgate lab results": Ends("kept"),
    },
    "docs/guides/load.md": {
        "headgate load constant:50000": Ends(
            r"1,000,000 records were due; sent 1,000,000 to orders in .*: 1,000,000 acknowledged, 0 failed"
        ),
        "headgate load trace:wc98": Ends(
            r"594,729 records were due; sent 594,729 to orders in .*: 594,729 acknowledged, 0 failed"
        ),
        "headgate load constant:100 ": Ends(r"2,000 records were due; sent 2,000 to orders in .*, 0 failed"),
    },
    "docs/guides/measure-mst.md": {
        "headgate mst steady-job": MEASURING,
        "headgate mst nexmark-5": MEASURING,
        "headgate mst --all": MEASURING,
        "headgate mst my_job.py:build": MEASURING,
    },
    "docs/guides/own-engine.md": {},
    "docs/guides/own-page.md": DEMO,
    "docs/guides/own-policy.md": {},
    "docs/guides/pipelines.md": {
        "headgate pipeline run": Stopped(
            r"running · [1-9][\d,]* records sent", "report: +headgate-pipeline/report.html"
        ),
    },
    "docs/guides/service.md": {
        "headgate serve headgate.yaml --check": Ends("headgate.yaml is valid: 2 jobs"),
        "headgate serve": Stopped("looking after 2 jobs at", code=0, continues=True),
    },
    "docs/guides/spark.md": {"headgate cluster up": Ends("up at spark://"), "headgate cluster status": Ends("up at")},
    "docs/guides/tune.md": {"headgate lab tune": Ends("lab/tune-hpa/settings.yaml has what is recommended")},
    "docs/lab/flink.md": {
        "headgate lab run": Stopped(r"flink-bottleneck .* [4-9]%", "headgate: stopped; nothing is saved"),
    },
    "docs/lab/kafka-load.md": {},
    "docs/tutorials/flink-job.md": {
        "headgate flink up": Ends("up at http://127.0.0.1:48101"),
        "headgate flink run slow-middle": Ends(r"middle runs at \S+ as [0-9a-f]{32}"),
        "headgate load": Stopped("acknowledged", "stopped early: .* acknowledged, 0 failed", continues=True),
        "headgate autoscale-flink --url http://127.0.0.1:48101 --job middle --recommend": Ends("recommended"),
        "headgate autoscale-flink --url http://127.0.0.1:48101 --job middle --objective": Ends(
            "why: headgate explain run.db"
        ),
    },
    "docs/tutorials/spark-job.md": {
        "headgate cluster up": Ends(r"up at spark://\S+ with 4 slots"),
        "headgate cluster down": Ends("stopped the cluster at spark://"),
    },
    "docs/lab/league.md": {
        "headgate lab run league --quick": Stopped(
            r"[1-9]\d* of \d+ runs", r"headgate: stopped; go on with: headgate lab run league --quick --out \S+"
        ),
        "headgate lab run league --out": Stopped(
            r"[1-9]\d\d of 5440 runs", r"headgate: stopped; go on with: headgate lab run league --out lab/league"
        ),
    },
    "docs/lab/mst.md": {"python -m benchmarks.mst_applications": MEASURING},
}
"""The pages whose commands are run so, in their order; a command by how it begins, the longest that fits."""

NOT_RUN = {
    "docker": "there is no container engine to run it",
    "helm": "there is no Kubernetes to install it on",
    "kubectl": "there is no Kubernetes to ask",
    "make test": "it is what runs this",
    "python -m benchmarks.kafka_load": "it takes the better part of an hour, and tells nothing in its first minutes",
    "spark-submit --master k8s": "there is no Kubernetes to submit to",
    "spark-submit --master yarn": "there is no YARN to submit to",
    "spark-submit --conf spark.headgate": "the job is yours; tests/live/test_dstream.py has such a configuration",
    "headgate submit job.yaml": "it names a cluster; tests/live/test_submit.py runs such a job",
    "headgate autoscale-flink --url http://jobmanager:8081": "there is no Kubernetes to start TaskManagers",
}
"""What cannot be run where tests are, by how it begins."""


def plain(text: str) -> str:
    """A command as it is looked up."""
    return text.removeprefix(".venv/bin/")


def reason_not_to_run(words: list[str]) -> str | None:
    text = plain(" ".join(words))
    return next((reason for start, reason in NOT_RUN.items() if text.startswith(start)), None)


def how(page: str, typed: Typed) -> How:
    fitting = [start for start in PAGES[page] if plain(typed.text).startswith(start)]
    return PAGES[page][max(fitting, key=len)] if fitting else Ends()


def typed_on(page: str) -> Iterator[Typed]:
    """What is typed on a page and can be run."""
    for block in SHELL:
        if block.page == page:
            yield from (typed for typed in block.typed() if reason_not_to_run(typed.words) is None)
