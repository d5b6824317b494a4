"""headgate submit"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import options
from headgate.cli.common import STANDARD_OUTPUT, argument, check_target, option, refused_document, say, write_json
from headgate.core.errors import InputError
from headgate.core.extras import require

if TYPE_CHECKING:
    from headgate.runtime.job_file import JobFile

LAUNCHER = '''"""Runs a PySpark program that Headgate scales: spark-submit THIS_FILE job.yaml."""

import sys

from headgate.cli import main

sys.argv[1:1] = ["submit"]
main()
'''


def submit(
    file: Annotated[Path | None, argument("FILE", "The job file, YAML.")] = None,
    arguments: Annotated[
        list[str] | None, argument("[ARGUMENTS]", "Passed to the program after those of the file.")
    ] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Only say whether the file is valid.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Only print the JSON schema of such files.")] = False,
    launcher: Annotated[
        Path | None, option("PATH", "Only write the program that spark-submit starts in place of yours.")
    ] = None,
    json_file: options.Json = None,
) -> None:
    """Run a PySpark program as it is, and scale it.

    The file names the program and its objective. The program is not changed: the autoscaler starts with its first
    streaming query, on a thread of the driver, and ends with it. If it cannot scale the job, it says so, and the job
    runs on. Edits of the file take effect while the program runs. The exit code is that of the program.

    [bold]Examples[/bold]
      [cyan]headgate submit job.yaml[/cyan]
      [cyan]headgate submit job.yaml -- --topic orders[/cyan]
      [cyan]headgate submit job.yaml --check[/cyan]
      [cyan]headgate submit --launcher launch.py && spark-submit --master yarn launch.py job.yaml[/cyan]
    """
    from headgate.documents import DocumentError
    from headgate.render.page import write_file
    from headgate.runtime.job_file import json_schema, read_job_file

    if schema:
        write_json(json_schema(), json_file or STANDARD_OUTPUT)
        return
    if launcher is not None:
        check_target(launcher)
        write_file(launcher, LAUNCHER)
        say(f"{launcher} is written; start the job with: spark-submit … {launcher} job.yaml")
        return
    if file is None:
        raise InputError("the job file is missing; write headgate submit job.yaml.")
    try:
        job = read_job_file(file)
    except DocumentError as error:
        if json_file is None or not check:
            raise
        write_json(refused_document(file, error), json_file)
        raise typer.Exit(2) from error
    if not check:
        _run(file, job, arguments or [])
    elif json_file is not None:
        write_json({"file": str(file), "valid": True, "errors": []}, json_file)
    else:
        bounds = f"{job.objective.min_instances} to {job.objective.max_instances} executors"
        policy = job.policy if isinstance(job.policy, str) else "rules"
        say(f"{file} is valid: {job.script}, {job.objective}, {bounds}, by {policy}.")


def _run(file: Path, job: JobFile, arguments: list[str]) -> None:
    require("a Spark job", "pyspark")
    from headgate.engines.spark.launch import is_under_spark_submit, run_program
    from headgate.runtime.attachment import Attachment

    if is_under_spark_submit() and (job.master is not None or job.conf):
        say("headgate: master and conf of the job file are left out, as spark-submit has its own.", stderr=True)
    attachment = Attachment(file, job, partial(say, stderr=True))
    try:
        run_program(job.script, [*job.arguments, *arguments], attachment, master=job.master, conf=job.conf)
    finally:
        attachment.stop()
