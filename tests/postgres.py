"""A real PostgreSQL on loopback for tests: made in a folder of its own, restarted at will, gone with the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psycopg
from psycopg import sql

from headgate.local.machine import LOOPBACK, free_ports

USER = "headgate"
START_WITHIN_S = 60.0
SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "16MB",
    # Processes are killed in tests, machines are not.
    "fsync": "off",
}


class PostgresMissing(Exception):
    """There is no PostgreSQL server on this machine."""


def server_programs() -> Path:
    """The folder of ``initdb`` and ``postgres``; Debian keeps them off the PATH, by version."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise PostgresMissing("no PostgreSQL server is installed; as root, run: apt-get install postgresql")


class PostgresServer:
    """A server with an empty database cluster, between ``with`` and its end."""

    def __init__(self) -> None:
        self._programs = server_programs()
        # Not below pytest's own folder, which only its user may enter: as root, the server runs as another.
        self._folder = Path(tempfile.mkdtemp(prefix="headgate-postgres-"))
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    def __enter__(self) -> PostgresServer:
        data = self._folder / "data"
        if os.geteuid() == 0:
            shutil.chown(self._folder, _server_user(), None)
        form = ["--no-sync", "--auth=trust", f"--username={USER}", "--locale=C", "--encoding=UTF8"]
        made = self._run(str(self._programs / "initdb"), *form, "-D", str(data))
        output, _ = made.communicate(timeout=START_WITHIN_S)
        if made.returncode:
            raise RuntimeError(output.decode())
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        program = str(self._programs / "postgres")
        self._process = self._run(program, "-D", str(self._folder / "data"), "-p", str(self.port), *options)
        until_s = time.monotonic() + START_WITHIN_S
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until_s:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it; ``SIGINT`` ends connections and is quick, ``SIGQUIT`` is as a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.communicate(timeout=START_WITHIN_S)
        self._process = None

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@{LOOPBACK}:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of a database that has nothing in it."""
        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        """A process that ends with this one, whatever this one ends by."""
        ends = ["setpriv", "--pdeathsig", "INT"]
        if os.geteuid() == 0:
            user = pwd.getpwnam(_server_user())
            ends += ["--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
        return subprocess.Popen(
            [*ends, "--", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self._folder
        )


def _server_user() -> str:
    """Whom to run the server as, which refuses to be run by root."""
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
