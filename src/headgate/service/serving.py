"""A service that runs: its store, its jobs, the thread that steps them, and the server that answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from headgate.core.errors import InputError
from headgate.core.types import Severity
from headgate.runtime.rule_file import signature
from headgate.service.api import make_api
from headgate.service.config import ServiceConfig, read_config
from headgate.service.quotas import limits_of
from headgate.service.server import Server, bound, require_usable
from headgate.service.service import Service
from headgate.service.standby import service_of
from headgate.service.store import open_store

logger = logging.getLogger("headgate")

BY = "file"
"""Who changes things, as the audit log has it."""


class ConfigWatch:
    """Looks at the files each time it is called."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._seen = self._found()

    def _found(self) -> list[object]:
        config = self._service.config
        return [signature(path) for path in (config.file, *config.further_files) if path is not None]

    def __call__(self) -> None:
        # While jobs are taken over, or the store is away, it waits: the file will still be there.
        if self._service.is_between:
            return
        path, found = self._service.config.file, self._found()
        if path is None or found == self._seen:
            return
        self._seen = found
        try:
            wanted = read_config(path)
        except InputError as error:
            self._service.config_problem = str(error)
            logger.warning("the changed file is refused, and what was in force stays: %s", error)
            self._tell("config-refused", str(error), Severity.WARNING)
            return
        self._service.config_problem = ""
        take_up(self._service, wanted)
        self._seen = self._found()

    def _tell(self, kind: str, detail: str, severity: Severity = Severity.INFO) -> None:
        now = self._service.clock.now()
        self._service.hub.publish(
            now, "event", "", {"at_s": now, "kind": kind, "detail": detail, "numbers": {}, "severity": severity}
        )


def take_up(service: Service, wanted: ServiceConfig) -> None:
    """Have the service do what another configuration says: jobs that are new, changed and gone, groups and access."""
    before = service.config
    old, new = {job.name: job for job in before.jobs}, {job.name: job for job in wanted.jobs}
    gone = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    different = [name for name in new if name in old and new[name] != old[name]]
    fixed = {"store": before.store, "host": before.host, "port": before.port, "tls": before.tls}
    if any(getattr(wanted, name) != value for name, value in fixed.items()):
        logger.warning("store, listen and tls are taken up when the service is started again")
    service.config = replace(wanted, **fixed)  # type: ignore[arg-type]  # these are the fields' own values
    service.arbiter.change(limits_of(wanted))
    if not service.leads:
        return  # The jobs are taken on as the file says when it comes to lead.
    for name in gone:
        service.let_go(name, "its file names it no longer")
    for name in different:
        job = service.fleet.job(name)
        if new[name].topology.operators == old[name].topology.operators:
            try:
                job.ask(new[name], "its file has changed")
                continue
            except InputError as error:
                logger.warning("changes of job %s no longer fit its file, and are left out: %s", name, error)
        service.let_go(name, "its file has changed")
        added.append(name)
    for name in added:
        service.take_on(service.made(new[name], service.store.changes.of(name)))
    if not (gone or added or different):
        return
    names = {"added": added, "changed": different, "gone": gone}
    service.store.audit.add(BY, "", "file", "the file has changed", None, names)
    logger.info("the file has changed: %s", names)


@contextmanager
def serving(config: ServiceConfig) -> Iterator[str]:
    """Runs a service inside the block; gives where it answers."""
    if config.tls is not None:
        require_usable(config.tls)
    # Before the store is touched: where the port is taken, the same service may be running already.
    listener = bound(config.host, config.port)
    try:
        store = open_store(config.store, retention=config.retention)
        service = service_of(config, store)
    except BaseException:
        listener.close()
        raise
    service.scheduler.chores.append(ConfigWatch(service))
    served = Server(make_api(service), config.port, config.host, config.tls, listener)
    # The server ends last: it waits for those who listen to events, whom the service lets go of.
    with served as server, service, service.figures.sent():
        service.run()
        yield server.url
