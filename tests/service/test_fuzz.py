"""Whatever is sent to the interface, it answers as its documentation says, and never with an error of its own."""

from __future__ import annotations

import zlib

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headgate.service.api import make_api
from headgate.service.config import ServiceConfig
from headgate.service.config.model import AccessRules
from headgate.service.service import Service
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope
from headgate.testing.clock import FakeClock
from tests.service.services import CLICKS, START_S

EXAMPLES = 10
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

_clock = FakeClock(START_S)
_service = Service(
    ServiceConfig((CLICKS,), access=AccessRules(requests_per_s=1_000_000)),
    open_store("sqlite://", now=_clock.now),
    _clock,
)
_token = _service.store.tokens.make("everybody", {Scope.READ, Scope.OPERATE, Scope.AGENT})
# A stream of events has no end; the tests of changes read it. Whether it is healthy depends on what steps the jobs.
_headers = {"Authorization": f"Bearer {_token}"}
_schema = schemathesis.openapi.from_asgi("/openapi.json", make_api(_service, _clock.now), headers=_headers).exclude(
    path=["/v1/events", "/healthz", "/readyz"]
)


@_schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_interface_keeps_to_its_documentation(case: Case) -> None:
    # Most of what is made up names nothing that is there; then nothing further would be looked at.
    for name, known in (("job", "clicks"), ("operator", "count")):
        made_up = case.path_parameters.get(name)
        if made_up is not None and zlib.crc32(repr(made_up).encode()) % 4:
            case.path_parameters[name] = known
    case.validate_response(case.call(headers=_headers), checks=CHECKS)
    _clock.advance(10.0)
    _service.fleet.job("clicks").tick()
