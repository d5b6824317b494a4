"""headgate doctor"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headgate import __version__
from headgate.cli import options
from headgate.cli.common import counted, grid, make_console, option, say, write_json
from headgate.core.errors import HeadgateError, InputError, UnknownNameError

if TYPE_CHECKING:
    from headgate.local.checkup.finding import Finding

FORMAT_VERSION = 1
SERVICE_PORT = 8420
_SIGNS = {"ok": "[green]ok[/green]", "warning": "[yellow]note[/yellow]", "problem": "[red]wrong[/red]"}


def doctor(
    *,
    only: Annotated[
        list[str] | None, option("CHECK", "Look at this only; may be given several times.", show_default="everything")
    ] = None,
    kafka: Annotated[str | None, option("HOST:PORT", "A broker that should answer.")] = None,
    service: Annotated[str | None, option("URL", "A service that should answer.")] = None,
    config: Annotated[Path | None, option("FILE", "A service's file that should be right.")] = None,
    port: Annotated[
        list[int] | None, option("PORT", "A port that should be free; may be repeated.", show_default="8420")
    ] = None,
    json_file: options.Json = None,
) -> None:
    """Check Java, Spark, Kafka, ports, clock, versions and permissions for problems.

    The exit code is 1 if something will not work; notes do not count.

    [bold]Examples[/bold]
      [cyan]headgate doctor[/cyan]
      [cyan]headgate doctor --only java --only spark --json[/cyan]
      [cyan]headgate doctor --kafka 127.0.0.1:9092 --service http://127.0.0.1:8420[/cyan]
    """
    from headgate.local.checkup.finding import FindingStatus

    checks = _checks(kafka, service, config, port)
    for name in only or ():
        if name not in checks:
            raise UnknownNameError("check", name, checks)
    findings = [found for name, check in checks.items() if not only or name in only for found in check()]
    if json_file is not None:
        found = [finding.to_json() for finding in findings]
        write_json({"version": FORMAT_VERSION, "headgate": __version__, "findings": found}, json_file)
    if json_file != "-":
        _print(findings)
    if any(finding.status is FindingStatus.PROBLEM for finding in findings):
        raise typer.Exit(1)


def _checks(
    kafka: str | None, service: str | None, config: Path | None, ports: list[int] | None
) -> dict[str, Callable[[], Iterator[Finding]]]:
    from headgate.local.checkup.host import check_clock, check_permissions, check_ports
    from headgate.local.checkup.remote import ServiceAnswer, check_kafka
    from headgate.local.checkup.software import check_java, check_spark, check_versions

    answer = None if service is None else ServiceAnswer.of(service)
    for port in ports or ():
        if not 1 <= port <= 65535:
            raise InputError(f"--port {port} is not allowed; it must lie between 1 and 65535.")
    return {
        "versions": check_versions,
        "java": check_java,
        "spark": check_spark,
        "kafka": lambda: check_kafka(kafka),
        "ports": lambda: check_ports(ports or [SERVICE_PORT]),
        "clock": lambda: check_clock(service_date=None if answer is None else answer.date),
        "permissions": lambda: check_permissions(secrets=_secrets(config)),
        "config": lambda: _config(config),
        "service": lambda: iter(()) if answer is None else answer.findings(),
    }


def _secrets(config: Path | None) -> list[Path]:
    if config is None:
        return []
    from headgate.service.config import read_config

    try:
        read = read_config(config)
    except HeadgateError:
        return []  # The check of the file reports what is wrong with it.
    return [] if read.tls is None else [read.tls.key]


def _config(config: Path | None) -> Iterator[Finding]:
    if config is None:
        return
    from headgate.local.checkup.finding import ok_finding, problem_finding
    from headgate.service.config import read_config

    try:
        read = read_config(config)
    except HeadgateError as error:
        yield problem_finding("config", str(error), "correct the file; headgate serve refuses it, too")
        return
    yield ok_finding(
        "config", f"{config} describes {counted(len(read.jobs), 'job')}, to be looked after at {read.host}:{read.port}."
    )


def _print(findings: list[Finding]) -> None:
    table = grid()
    for finding in findings:
        text = Text(finding.text)
        if finding.remedy:
            text.append(f"\n→ {finding.remedy}", style="dim")
        table.add_row(Text.from_markup(_SIGNS[finding.status]), Text(finding.check, style="cyan"), text)
    make_console().print(table)
    problems = sum(finding.status == "problem" for finding in findings)
    say(f"{counted(problems, 'thing')} will not work." if problems else "nothing is wrong.")
