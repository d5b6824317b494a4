"""A client of Flink's REST API: every request has a time limit, and every error is one sentence.

``EngineError`` is raised when Flink does not answer or its answer is not understood, :class:`FlinkRefusedError` when it
refuses a request, :class:`UnknownJobError` when it does not know the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from headgate.core.errors import EngineError, InputError, cause_of
from headgate.core.extras import needing
from headgate.engines.flink.responses import (
    AggregatedMetric,
    Checkpoints,
    ErrorResponse,
    JobDetails,
    JobEntry,
    JobList,
    MetricName,
    MetricValue,
    TaskManagerEntry,
    TaskManagerList,
    VertexDetails,
    VertexRequirement,
)

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
ANSWER_WITHIN_S = 5.0
NOT_FOUND = 404
UNSUPPORTED = "java.lang.UnsupportedOperationException"
"""In the answer, of status 500, when the scheduler of a job does not support a request."""
NO_WORDS = frozenset({"", "Internal server error."})
SERVER_SIDE = "<Exception on server side:"
"""Precedes the reason in Flink's answers of status 500."""


class FlinkResponseError(EngineError):
    """Flink answered a request with an error; ``text`` is Flink's own message, without a full stop."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


class UnknownJobError(FlinkResponseError):
    """Flink knows no job of this id."""


class FlinkRefusedError(FlinkResponseError):
    """Flink refused the request."""


class FlinkRest:
    """The API at an address such as ``http://127.0.0.1:8081``."""

    def __init__(self, url: str, *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        with needing("the Flink engine"):
            import httpx
        self.url = usable_url(url)
        # A web proxy from the environment usually cannot reach the cluster.
        self._client = httpx.Client(timeout=answer_within_s, trust_env=False)
        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        self._within_s = answer_within_s

    def close(self) -> None:
        self._client.close()

    def jobs(self) -> tuple[JobEntry, ...]:
        return self._get("/jobs/overview", _JOBS).jobs

    def job(self, job: str) -> JobDetails:
        return self._get(f"/jobs/{job}", _JOB)

    def vertex(self, job: str, vertex: str) -> VertexDetails:
        return self._get(f"/jobs/{job}/vertices/{vertex}", _VERTEX)

    def job_metrics(self, job: str, names: Sequence[str]) -> dict[str, float]:
        """Return the metrics known so far; a request makes Flink fetch them for the next one."""
        values = self._get(f"/jobs/{job}/metrics", _VALUES, {"get": ",".join(names)})
        return {value.id: value.number for value in values if value.number is not None}

    def metric_names(self, job: str, vertex: str) -> tuple[str, ...]:
        return tuple(metric.id for metric in self._get(f"/jobs/{job}/vertices/{vertex}/subtasks/metrics", _NAMES))

    def metrics(self, job: str, vertex: str, names: Sequence[str]) -> dict[str, AggregatedMetric]:
        """Return metrics aggregated over the subtasks of a vertex.

        A single unknown name empties the whole answer: request names of :meth:`metric_names` only.
        """
        path = f"/jobs/{job}/vertices/{vertex}/subtasks/metrics"
        return {metric.id: metric for metric in self._get(path, _AGGREGATED, {"get": ",".join(names)})}

    def watermarks_ms(self, job: str, vertex: str) -> tuple[float, ...]:
        """Return the watermark of each subtask that has one."""
        values = self._get(f"/jobs/{job}/vertices/{vertex}/watermarks", _VALUES)
        return tuple(value.number for value in values if value.number is not None and value.number > 0)

    def checkpoints(self, job: str) -> Checkpoints:
        return self._get(f"/jobs/{job}/checkpoints", _CHECKPOINTS)

    def task_managers(self) -> tuple[TaskManagerEntry, ...]:
        return self._get("/taskmanagers", _TASK_MANAGERS).taskmanagers

    def requirements(self, job: str) -> dict[str, VertexRequirement]:
        return self._get(f"/jobs/{job}/resource-requirements", _REQUIREMENTS)

    def require(self, job: str, required: Mapping[str, VertexRequirement]) -> None:
        """Set the sizes of all vertices in one request, which makes one restart."""
        body = {name: requirement.model_dump(by_alias=True) for name, requirement in required.items()}
        self._request("PUT", f"/jobs/{job}/resource-requirements", json=body)

    def _get(self, path: str, shape: TypeAdapter[T], params: Mapping[str, str] | None = None) -> T:
        answer = self._request("GET", path, params=params)
        try:
            return shape.validate_json(answer.content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise EngineError(
                f"Flink at {self.url} cannot be understood: its answer to GET {path} is not what it should be "
                f"({where}: {first['msg'].lower()})."
            ) from error

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            answer = self._client.request(method, f"{self.url}{path}", **options)
        except self._errors as error:
            raise EngineError(f"Flink at {self.url} does not answer: {self._cause(error)}.") from error
        if answer.is_success:
            return answer
        text = _first_failure(answer)
        if answer.status_code == NOT_FOUND and path.startswith("/jobs/"):
            raise UnknownJobError(f"Flink at {self.url} does not know what was requested: {text}.", text)
        if answer.is_client_error or UNSUPPORTED in answer.text:
            raise FlinkRefusedError(f"Flink at {self.url} refused {method} {path}: {text}.", text)
        raise EngineError(f"Flink at {self.url} could not do {method} {path}: {text}.")

    def _cause(self, error: Exception) -> str:
        # httpx's own message for a time-out is empty.
        if "timeout" in type(error).__name__.lower():
            return f"no answer within {self._within_s:g} s"
        return cause_of(error)


def usable_url(url: str) -> str:
    """Return the address without trailing slashes, or raise ``InputError`` if it is none."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # A port that is none.
        is_usable = False
    if not is_usable:
        raise InputError(f"Flink address {url!r} is not usable; one such as http://127.0.0.1:8081 is needed.")
    return url.rstrip("/")


def _first_failure(answer: httpx.Response) -> str:
    """Return the first message of Flink's answer, without the Java stack trace."""
    try:
        errors = _FAILURES.validate_json(answer.content).errors
    except ValidationError:
        errors = ()
    lines = [line.strip() for error in errors for line in error.splitlines()]
    text = next((line for line in lines if line not in NO_WORDS and not line.startswith(SERVER_SIDE)), "")
    _, exception, reason = text.partition("Exception: ")
    return (reason if exception else text).strip().rstrip(".") or f"status {answer.status_code}"


_JOBS = TypeAdapter(JobList)
_JOB = TypeAdapter(JobDetails)
_VERTEX = TypeAdapter(VertexDetails)
_VALUES = TypeAdapter(tuple[MetricValue, ...])
_NAMES = TypeAdapter(tuple[MetricName, ...])
_AGGREGATED = TypeAdapter(tuple[AggregatedMetric, ...])
_CHECKPOINTS = TypeAdapter(Checkpoints)
_TASK_MANAGERS = TypeAdapter(TaskManagerList)
_REQUIREMENTS = TypeAdapter(dict[str, VertexRequirement])
_FAILURES = TypeAdapter(ErrorResponse)
