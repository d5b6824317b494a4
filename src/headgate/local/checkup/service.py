"""Whether a service that was named answers, and does its work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from headgate.core.errors import InputError, cause_of
from headgate.local.checkup.finding import Finding, fine, wrong

ANSWERS_WITHIN_S = 10.0


@dataclass(frozen=True)
class ServiceAnswer:
    """What a service said when it was asked whether it lives."""

    url: str
    status: int | None = None
    said: str = ""
    date: str | None = None
    """Its clock."""

    @classmethod
    def of(cls, url: str) -> ServiceAnswer:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"service {url!r} is not usable; write it as http://127.0.0.1:8420.")
        try:
            with urlopen(f"{url.rstrip('/')}/healthz", timeout=ANSWERS_WITHIN_S) as answer:
                said = answer.read(500).decode("utf-8", errors="replace")
                return cls(url, answer.status, said, answer.headers.get("Date"))
        except HTTPError as error:
            with error:
                said = error.read(500).decode("utf-8", errors="replace")
                return cls(url, error.code, said, error.headers.get("Date"))
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            return cls(url, None, cause_of(reason) if isinstance(reason, BaseException) else str(reason))

    def findings(self) -> Iterator[Finding]:
        if self.status is None:
            remedy = "look whether headgate serve runs there; agents keep their sizes meanwhile"
            yield wrong("service", f"{self.url} does not answer: {self.said}.", remedy)
        elif self.status == 200:
            yield fine("service", f"{self.url} lives and does its work.")
        else:
            remedy = "look into its log; the address may also be that of something else"
            yield wrong("service", f"{self.url} answers {self.status}: {self.said.strip() or 'nothing'}", remedy)
