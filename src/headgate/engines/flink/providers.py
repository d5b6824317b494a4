"""Who starts and stops TaskManagers: the narrow seam to whatever runs them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from headgate.core.errors import InputError, UnknownNameError


class Provider(Protocol):
    """Has so many TaskManagers run as are wanted. Every call returns at once; what comes of it is seen in Flink."""

    def wanted(self) -> int:
        """How many are to run, whether they have registered with Flink or not."""
        ...

    def add(self, count: int) -> None: ...

    def remove(self, free: Sequence[str], count: int) -> None:
        """Stop so many of those that nothing runs on; they are given by Flink's ids."""
        ...

    def close(self) -> None: ...


class ProviderKind(StrEnum):
    NONE = "none"
    """TaskManagers are somebody else's business: Flink runs what fits, and takes more when they come."""
    LOCAL = "local"
    KUBERNETES = "kubernetes"


def provider_kind(name: str) -> ProviderKind:
    try:
        return ProviderKind(name)
    except ValueError:
        raise UnknownNameError("provider", name, map(str, ProviderKind)) from None


def open_provider(kind: ProviderKind, url: str, deployment: str | None = None) -> Provider | None:
    """Who runs the TaskManagers of the cluster at ``url``; on Kubernetes, by a Deployment ``namespace/name``."""
    if kind is not ProviderKind.KUBERNETES and deployment is not None:
        raise InputError(f"deployment {deployment!r} goes with provider kubernetes; the provider is {kind}.")
    match kind:
        case ProviderKind.NONE:
            return None
        case ProviderKind.LOCAL:
            from headgate.engines.flink.local_provider import LocalProvider

            return LocalProvider(url)
        case ProviderKind.KUBERNETES:
            from headgate.engines.flink.kubernetes_provider import KubernetesProvider

            if deployment is None:
                raise InputError("provider kubernetes needs the Deployment of the TaskManagers, as flink/taskmanager.")
            return KubernetesProvider(deployment)
