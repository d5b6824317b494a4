"""Answers for a service that stands by: who asks is told why, and where the one is that leads."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeAlias

from headgate.engines.agents.wire import LEADER_HEADER, NOT_LEADING
from headgate.service.access.gate import OPEN_FOLDERS, OPEN_PATHS, App, Receive, Send
from headgate.service.service import Service

ALWAYS = OPEN_PATHS | {"/metrics"}


StandingBy: TypeAlias = Callable[[MutableMapping[str, Any], str, str], App | None]
"""What somebody who looks at pages is shown, with why and the leader's address; ``None``: a sentence, as for
programs."""


class LeaderOnly:
    """The application behind it is asked only while its service leads."""

    def __init__(self, app: App, service: Service, shown: StandingBy) -> None:
        self._app = app
        self._service = service
        self._shown = shown

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        path, why = scope.get("path", ""), self._service.standing_by
        if scope["type"] != "http" or not why or path in ALWAYS or path.startswith(OPEN_FOLDERS):
            await self._app(scope, receive, send)
            return
        url = self._service.leader_url
        if (page := self._shown(scope, why, url)) is not None:
            await page(scope, receive, send)
            return
        text = f"this service {why}.".encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
        if url:
            headers.append((LEADER_HEADER.lower().encode(), url.encode()))
        await send({"type": "http.response.start", "status": NOT_LEADING, "headers": headers})
        await send({"type": "http.response.body", "body": text})
