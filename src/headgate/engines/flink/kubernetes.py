"""TaskManagers that are pods of a Deployment: its size is set through the API of Kubernetes.

A Deployment chooses by itself which pods go. So the free ones are marked as the cheapest to delete before its size is
reduced (``controller.kubernetes.io/pod-deletion-cost``); Flink's id of a TaskManager contains its address.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.core.errors import EngineError, InputError, cause_of
from headgate.core.extras import needing

if TYPE_CHECKING:
    import httpx

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its credentials."""
ANSWER_WITHIN_S = 5.0
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
CHEAP = "-1000"
MERGE = {"Content-Type": "application/merge-patch+json"}


class KubernetesProvider:
    """The Deployment ``namespace/name``; without a namespace it is the one that this pod runs in.

    - ``url``: the API server; by default the one in a pod's environment
    - ``account``: the folder of the service account, with its token and the certificate of the API server
    """

    def __init__(self, deployment: str, *, url: str | None = None, account: Path = ACCOUNT) -> None:
        with needing("the Kubernetes provider"):
            import httpx
        namespace, slash, name = deployment.partition("/")
        if not slash:
            namespace, name = _read(account / "namespace", "namespace"), deployment
        if not (namespace and name) or "/" in name:
            raise InputError(f"deployment {deployment!r} is not usable; write namespace/name, as flink/taskmanager.")
        self._account = account
        self._url = (url or _api_server()).rstrip("/")
        self._deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        certificate = account / "ca.crt"
        verify: Any = str(certificate) if self._url.startswith("https://") and certificate.exists() else True
        self._client = httpx.Client(timeout=ANSWER_WITHIN_S, verify=verify, trust_env=False)
        self._errors = httpx.HTTPError
        self.wanted()  # Report a wrong name or account now.

    def wanted(self) -> int:
        return int(self._scale()["spec"].get("replicas", 0))

    def add(self, count: int) -> None:
        self._set(self.wanted() + count)

    def remove(self, free: Sequence[str], count: int) -> None:
        scale = self._scale()
        marked = self._mark(str(scale.get("status", {}).get("selector", "")), free[:count])
        # A pod that is not found by its address cannot be marked, and another might be deleted instead.
        if marked:
            self._set(max(0, int(scale["spec"].get("replicas", 0)) - marked))

    def close(self) -> None:
        self._client.close()

    def _mark(self, selector: str, free: Sequence[str]) -> int:
        """Mark the pods of these TaskManagers as the first to delete; return how many were found."""
        pods = self._request("GET", self._pods, params={"labelSelector": selector})["items"]
        by_address = {pod.get("status", {}).get("podIP", ""): pod["metadata"]["name"] for pod in pods}
        names = {pod["metadata"]["name"] for pod in pods}
        marked = 0
        for manager in free:
            # Flink's ids begin with the address, or are the name of a pod that Flink itself created.
            name = by_address.get(manager.partition(":")[0]) or (manager if manager in names else None)
            if name is not None:
                body = {"metadata": {"annotations": {DELETION_COST: CHEAP}}}
                self._request("PATCH", f"{self._pods}/{name}", json=body, headers=MERGE)
                marked += 1
        return marked

    def _scale(self) -> Mapping[str, Any]:
        return self._request("GET", f"{self._deployment}/scale")

    def _set(self, replicas: int) -> None:
        self._request("PATCH", f"{self._deployment}/scale", json={"spec": {"replicas": replicas}}, headers=MERGE)

    def _request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **options: Any
    ) -> Mapping[str, Any]:
        # A token is renewed on disk while the pod runs.
        token = _read(self._account / "token", "token")
        sent = {"Authorization": f"Bearer {token}", **(headers or {})}
        try:
            answer: httpx.Response = self._client.request(method, f"{self._url}{path}", headers=sent, **options)
        except self._errors as error:
            raise EngineError(f"Kubernetes at {self._url} does not answer: {cause_of(error)}.") from error
        body = _json(answer)
        if not answer.is_success:
            text = str(body.get("message") or f"status {answer.status_code}").rstrip(".")
            raise EngineError(f"Kubernetes at {self._url} did not do {method} {path}: {text}.")
        if not body:
            raise EngineError(
                f"Kubernetes at {self._url} cannot be understood: its answer to {method} {path} is no JSON."
            )
        return body


def _json(answer: httpx.Response) -> Mapping[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, Mapping) else {}


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(
            f"the {what} of a service account is not at {path}; Kubernetes is scaled from a pod, or with a folder that "
            "has the same files."
        ) from error


def _api_server() -> str:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise InputError(
            "there is no KUBERNETES_SERVICE_HOST: this is no pod, and the address of the API server is not given."
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
