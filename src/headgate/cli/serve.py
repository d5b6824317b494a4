"""headgate serve"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.common import STANDARD_OUTPUT, argument, counted, option, say, write_json
from headgate.core.extras import require

if TYPE_CHECKING:
    from headgate.service.config import ServiceConfig


def serve(
    file: Annotated[Path, argument("FILE", "What the service is to look after.")] = Path("headgate.yaml"),
    *,
    listen: Annotated[str | None, option("HOST:PORT", "Where, instead of what the file says.")] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Show a dashboard of simulated jobs that are scaled live; needs no file.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only say whether the file is valid.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Only print the JSON schema of such files.")] = False,
    json_file: options.Json = None,
) -> None:
    """Scale the jobs whose agents report here; serve the journal, the API and the dashboard.

    The file names jobs, their operators and objectives. It is read again when it changes; a wrong one is reported,
    and the one before stays in force. Tokens come from headgate token make. Ctrl-C ends it; all jobs keep their sizes.

    [bold]Examples[/bold]
      [cyan]headgate serve --demo[/cyan]
      [cyan]headgate serve headgate.yaml --check[/cyan]
      [cyan]headgate serve headgate.yaml[/cyan]
      [cyan]headgate serve --schema --json service.schema.json[/cyan]
    """
    require("a service", "fastapi", "jinja2", "uvicorn")
    if schema:
        from headgate.service.config.document import json_schema

        write_json(json_schema(), json_file or STANDARD_OUTPUT)
        return
    if demo:
        from headgate.service.demo.plan import demo_config

        _demonstrate(_listening(demo_config(), listen))
        return
    from headgate.service.config import read_config

    config = _listening(read_config(file), listen)
    if not check:
        _serve(config)
    elif json_file is not None:
        write_json({"file": str(file), "valid": True, "jobs": [job.name for job in config.jobs]}, json_file)
    else:
        operators = sum(len(job.operators) for job in config.jobs)
        described = f"{counted(len(config.jobs), 'job')} with {counted(operators, 'operator')}"
        say(f"{file} is valid: {described}, at {config.host}:{config.port}.")


def _listening(config: ServiceConfig, listen: str | None) -> ServiceConfig:
    if listen is None:
        return config
    from headgate.service.config.document import parse_address

    host, port = parse_address(listen, "--listen")
    return replace(config, host=host, port=port)


def _serve(config: ServiceConfig) -> None:
    import logging

    from headgate.cli.progress import stopped_by_signals
    from headgate.service.serving import serving

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    with stopped_by_signals() as stop, serving(config) as url:
        say(f"looking after {counted(len(config.jobs), 'job')} at {url}; Ctrl-C ends it, and all keep their sizes.")
        if not config.is_loopback and config.tls is None:
            say(f"headgate: tokens travel to {config.host} unencrypted; name a certificate under tls.", stderr=True)
        stop.wait()
    say("headgate: stopped; all jobs keep their sizes.", stderr=True)


def _demonstrate(config: ServiceConfig) -> None:
    """The service here, and simulated jobs in a process of their own, until it is stopped."""
    from dataclasses import asdict
    from tempfile import TemporaryDirectory

    from headgate.cli.progress import stopped_by_signals
    from headgate.local.supervisor import ProcessEnd, ProcessSupervisor, python_process
    from headgate.service.demo.demonstration import demonstrating

    def report(end: ProcessEnd) -> None:
        say(f"headgate: {end.name} {end.reason}; it restarts in a moment.", stderr=True)

    jobs = ProcessSupervisor(report)
    with (
        stopped_by_signals() as stop,
        TemporaryDirectory(prefix="headgate-demo-") as folder,
        demonstrating(config) as shown,
    ):
        try:
            plan = asdict(shown.engines)
            jobs.start(python_process("simulated-jobs", "headgate.service.demo.engines", plan, Path(folder)))
            say(f"open {shown.url} and watch {len(config.jobs)} simulated jobs being scaled; Ctrl-C ends it.")
            say(f"to change something, sign in with the token {shown.token}")
            while not stop.wait(1.0):
                jobs.check()
        finally:
            jobs.stop()
    say("headgate: stopped; nothing of the demonstration is saved.", stderr=True)
