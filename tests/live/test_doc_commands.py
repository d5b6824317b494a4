"""The commands of the documentation do what it says: real processes, page by page, exactly as they are printed.

What goes on for ever, or for minutes, is stopped with Ctrl-C at a terminal when it has shown that it is at work.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from headgate.local.kafka import LocalKafka
from headgate.local.machine import free_ports
from tests.docs.blocks import LEFT_OUT, ROOT, Typed, blocks
from tests.docs.printed_commands import PAGES, Ends, Stopped, how, typed_on
from tests.live.support import eventually
from tests.live.terminal import Going, Terminal, terminal_in
from tests.traces import have_traces

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

PRINTED = {block.name: block.text for block in blocks()}
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
SERVICE = "127.0.0.1:8420"
NEED_TRACES = ("docs/guides/applications.md", "docs/guides/load.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_do_what_it_says(page: str, tmp_path: Path) -> None:
    if page in NEED_TRACES and not have_traces():
        pytest.skip("the public traces are not here; set HEADGATE_TRACES to their folder")
    with terminal_in(tmp_path) as terminal, ExitStack() as cleanup:
        if page in PREPARED:
            cleanup.enter_context(PREPARED[page](terminal))
        for typed in typed_on(page):
            run(page, typed, terminal, cleanup)


def run(page: str, typed: Typed, terminal: Terminal, cleanup: ExitStack) -> None:
    expected = how(page, typed)
    if isinstance(expected, Ends):
        message = terminal.output(completed(typed), within_s=expected.within_s)
        if expected.as_printed:
            learn_addresses(terminal, typed.says, message)
            assert ADDRESS.sub("", message) == f"{ADDRESS.sub('', typed.says)}\n"
        assert re.search(expected.says, message, re.DOTALL | re.MULTILINE), f"{typed.text} says: {message}"
        return
    going = terminal.start(typed)
    cleanup.callback(going.kill)
    going.await_shown(expected.shows, expected.within_s)
    if expected.seen_by is not None:
        command, pattern = expected.seen_by
        eventually(pattern, lambda: re.search(pattern, terminal.output(Typed(command))) is not None)
    if expected.continues:
        cleanup.callback(stop, going, expected)
    else:
        stop(going, expected)


def stop(going: Going, expected: Stopped) -> None:
    code = going.stop()
    assert code == expected.code, f"{going} ended with {code}: {going.printed[-3000:]}"
    assert "Traceback" not in going.printed, going.printed
    assert re.search(expected.says, going.printed, re.DOTALL), f"{going} says: {going.printed[-3000:]}"


def learn_addresses(terminal: Terminal, printed: str, message: str) -> None:
    """Where the page's own server is, others that the page names are meant."""
    for there, here in zip(ADDRESS.findall(printed), ADDRESS.findall(message), strict=True):
        terminal.replaced[there] = here


def completed(typed: Typed) -> Typed:
    """What stands for the dots in a simulation that is not shown in full."""
    return Typed(typed.text.replace(LEFT_OUT, "--service-rate 10 --seconds 10m"), typed.says)


# --------------------------------------------------------------------------------------- what pages take for granted


@contextmanager
def a_journal(terminal: Terminal) -> Iterator[None]:
    simulated = "headgate simulate --workload constant:20 --service-rate 10 --seconds 10m --journal run.db"
    terminal.output(Typed(simulated))
    yield


@contextmanager
def a_load(terminal: Terminal) -> Iterator[None]:
    """Forty minutes in which the load comes and goes."""
    rows = [f"{60 * minute},{1200 + 900 * (minute // 5 % 2)}" for minute in range(41)]
    (terminal.folder / "load.csv").write_text("\n".join(["timestamp,count", *rows]))
    yield


def with_file(terminal: Terminal, printed: str) -> None:
    """A service's file, with a port that is free."""
    (port,) = free_ports(1)
    terminal.replaced[SERVICE] = f"127.0.0.1:{port}"
    terminal.environment["HEADGATE_SERVICE"] = f"http://127.0.0.1:{port}"
    (terminal.folder / "headgate.yaml").write_text(PRINTED[printed].replace(SERVICE, terminal.replaced[SERVICE]))


@contextmanager
def a_service_file(terminal: Terminal) -> Iterator[None]:
    with_file(terminal, "docs/guides/service.md yaml 1")
    yield


@contextmanager
def a_service(terminal: Terminal, printed: str = "docs/guides/service.md yaml 1") -> Iterator[None]:
    """A service with the file of a guide, and a token for agents."""
    with_file(terminal, printed)
    terminal.output(Typed("headgate token make drivers --scope agent > agent.token"))
    service = terminal.start(Typed("headgate serve headgate.yaml"))
    try:
        service.await_shown("looking after", 60.0)
        yield
        assert service.stop() == 0, service.printed
    finally:
        service.kill()


@contextmanager
def an_adaptor(terminal: Terminal) -> Iterator[None]:
    """The twenty lines of the page, for a job of the service's guide."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    terminal.replaced["127.0.0.1:9000"] = f"127.0.0.1:{port}"
    (terminal.folder / "adaptor.py").write_text(PRINTED["docs/guides/engines.md python 1"])
    adaptor = subprocess.Popen([sys.executable, "adaptor.py", str(port)], cwd=terminal.folder)
    try:
        with a_service(terminal):
            eventually("the adaptor answers", lambda: answers(f"{url}/observe"))
            checked = PRINTED["docs/guides/engines.md python 2"].replace("http://127.0.0.1:9000", url)
            exec(compile(checked, "example", "exec"), {})  # noqa: S102 - our own documentation
            yield
    finally:
        adaptor.terminate()
        adaptor.wait(30)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


@contextmanager
def a_broker_and_a_service(terminal: Terminal) -> Iterator[None]:
    with a_service(terminal):
        a_broker(terminal, "127.0.0.1:9092")
        yield


def a_broker(terminal: Terminal, called: str) -> str:
    """The address of a broker, as the page calls it."""
    (address,) = ADDRESS.findall(terminal.output(Typed("headgate kafka up")))
    terminal.replaced[called] = address
    return str(address)


@contextmanager
def a_job_and_a_broker(terminal: Terminal) -> Iterator[None]:
    """A broker of one's own, and a program that needs the connector."""
    (terminal.folder / "job.py").write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').getOrCreate()\n"
        "topic = {'kafka.bootstrap.servers': '127.0.0.1:9', 'subscribe': 'orders'}\n"
        "spark.read.format('kafka').options(**topic).load()\n"
        "print('the connector is there')\n"
        "spark.stop()\n"
    )
    with LocalKafka() as own:
        terminal.replaced["127.0.0.1:9092"] = own.bootstrap
        yield


@contextmanager
def a_flink_job_and_a_service(terminal: Terminal) -> Iterator[None]:
    """A job to scale on a Flink cluster of this machine, and a service that has its file."""
    with a_service(terminal, printed="docs/guides/flink.md yaml 1"):
        (address,) = ADDRESS.findall(terminal.output(Typed("headgate flink up --taskmanagers 2 --slots 2")))
        terminal.replaced["127.0.0.1:48101"] = address
        terminal.output(Typed("headgate kafka up"))
        terminal.output(Typed("headgate kafka topic clicks --partitions 4"))
        terminal.output(Typed("headgate flink run click-fraud --topic clicks --parallelism 2 --job clicks"))
        yield


@contextmanager
def a_backlog(terminal: Terminal) -> Iterator[None]:
    """A topic with more than the page's own job gets through, and a model as the first command would have left it."""
    address = a_broker(terminal, "localhost:9092")
    terminal.output(Typed("headgate kafka topic events --partitions 12"))
    terminal.output(Typed("headgate load constant:1000 --seconds 10m --speed max --to kafka:events"))
    job = PRINTED["docs/guides/measure-mst.md python 1"].replace("localhost:9092", address)
    (terminal.folder / "my_job.py").write_text(job)
    shutil.copy(ROOT / "src/headgate/runtime/models/steady-job.json", terminal.folder / "mst.json")
    yield


@contextmanager
def a_place_for_packages(terminal: Terminal) -> Iterator[None]:
    """Where packages are installed that are not to stay."""
    packages = terminal.folder / "packages"
    terminal.environment |= {"PIP_TARGET": str(packages), "PIP_NO_DEPS": "1", "PYTHONPATH": str(packages)}
    yield


@contextmanager
def a_clone(terminal: Terminal) -> Iterator[None]:
    """A folder as that of this repository after set-up; what is written there is not written here."""
    for name in ("Makefile", "pyproject.toml", "requirements", "scripts", "src", "tests", "README.md", "LICENSE"):
        (terminal.folder / name).symlink_to(ROOT / name)
    for name in ("benchmarks", "docs"):
        shutil.copytree(ROOT / name, terminal.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = terminal.folder / ".venv"
    environment.unlink()
    environment.mkdir()
    for path in Path(sys.prefix).iterdir():
        if path.suffix != ".stamp":
            (environment / path.name).symlink_to(path)
    # Set-up asks by these whether there is anything left to do.
    settled = {
        "requirements": "requirements/*.txt",
        "project": "requirements/*.txt pyproject.toml src/headgate/_version.py",
    }
    for name, files in settled.items():
        reported = ["bash", "-c", f"(pwd && cat {files}) | cksum"]
        stamp = subprocess.run(reported, cwd=terminal.folder, capture_output=True, check=True)
        (environment / f"{name}.stamp").write_bytes(stamp.stdout)
    terminal.environment["PIP_DRY_RUN"] = "1"
    yield


PREPARED: dict[str, Callable[[Terminal], AbstractContextManager[None]]] = {
    "CONTRIBUTING.md": a_clone,
    "README.md": a_clone,
    "docs/guides/applications.md": a_clone,
    "docs/guides/deploy.md": a_broker_and_a_service,
    "docs/guides/engines.md": an_adaptor,
    "docs/guides/flink.md": a_flink_job_and_a_service,
    "docs/guides/kafka.md": a_job_and_a_broker,
    "docs/guides/measure-mst.md": a_backlog,
    "docs/guides/own-engine.md": a_place_for_packages,
    "docs/guides/own-policy.md": a_place_for_packages,
    "docs/guides/service.md": a_service_file,
    "docs/guides/spark.md": a_journal,
    "docs/guides/tune.md": a_load,
    "docs/lab/kafka-load.md": a_clone,
    "docs/lab/mst.md": a_clone,
}
"""What has to be there before the commands of a page."""
