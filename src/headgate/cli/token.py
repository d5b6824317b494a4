"""headgate token"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.common import argument, duration_s, make_console, option, print_table, say, write_json
from headgate.core.extras import require
from headgate.core.types import JSON

if TYPE_CHECKING:
    from headgate.service.store import Store

token = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Make, list and revoke tokens of a service.")

ConfigOption = Annotated[Path, option("FILE", "The service's file, which names its store.", "--config")]
NameArgument = Annotated[str, argument("NAME", "Who or what holds it, such as ana or drivers.")]


@token.command()
def make(
    name: NameArgument,
    *,
    scope: Annotated[
        list[str], option("SCOPE", "read, operate (change and read) or agent (report); as often as needed.")
    ],
    lasts: Annotated[str | None, option("DURATION", "How long it is valid; without end where not given.")] = None,
    job: Annotated[str | None, option("JOB", "The only job that it may report for; any where not given.")] = None,
    operator: Annotated[str | None, option("OPERATOR", "The only operator of that job.")] = None,
    config: ConfigOption = Path("headgate.yaml"),
    json_file: options.Json = None,
) -> None:
    """Make a token and print it once; only its digest is stored.

    [bold]Examples[/bold]
      [cyan]headgate token make clicks-driver --scope agent --job clicks > agent.token[/cyan]
      [cyan]headgate token make ana --scope operate --lasts 30d[/cyan]
    """
    from headgate.service.store.tokens import scope_named

    scopes = [scope_named(scope_name) for scope_name in scope]
    lasts_s = None if lasts is None else duration_s("--lasts", lasts)
    with _store(config) as store:
        secret = store.tokens.make(name, scopes, lasts_s, job, operator)
        made = {"scopes": sorted(map(str, scopes)), "job": job, "operator": operator}
        store.audit.add("headgate token", "", f"token {name}", "made", None, made)
    if json_file is not None:
        write_json({"name": name, "scopes": [str(scope_name) for scope_name in scopes], "token": secret}, json_file)
    else:
        say(secret)


@token.command("list")
def list_tokens(config: ConfigOption = Path("headgate.yaml"), json_file: options.Json = None) -> None:
    """List the tokens of a service; the secrets themselves are not stored."""
    with _store(config) as store:
        now_s = store.now()
        found: list[dict[str, JSON]] = [
            {
                "name": entry.name,
                "scopes": sorted(map(str, entry.scopes)),
                "job": entry.job,
                "operator": entry.operator,
                "made_s": entry.made_s,
                "until_s": entry.until_s,
                "valid": entry.holds_at(now_s),
            }
            for entry in store.tokens.all()
        ]
    if json_file is not None:
        write_json(found, json_file)
        return
    if not found:
        say("there are no tokens; headgate token make NAME --scope agent makes one.")
        return
    rows = [
        {
            "name": row["name"],
            "scopes": ", ".join(row["scopes"]),
            "for": "all jobs" if row["job"] is None else " ".join(filter(None, (row["job"], row["operator"]))),
            "valid": "yes" if row["valid"] else "no longer",
        }
        for row in found
    ]
    print_table(rows, make_console())


@token.command()
def revoke(name: NameArgument, config: ConfigOption = Path("headgate.yaml")) -> None:
    """Have a token be refused from now on; a service that runs does so within seconds."""
    with _store(config) as store:
        store.tokens.revoke(name)
        store.audit.add("headgate token", "", f"token {name}", "revoked", None, None)
    say(f"token {name} is revoked.")


@contextmanager
def _store(config: Path) -> Iterator[Store]:
    require("a service", "fastapi", "uvicorn")
    from headgate.service.config import read_config
    from headgate.service.store import open_store

    found = read_config(config)
    store = open_store(found.store, retention=found.retention)
    try:
        yield store
    finally:
        store.close()
