"""The addresses of services that share their jobs, of which one leads at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.core.errors import InputError


def service_urls(service: str | Sequence[str]) -> tuple[str, ...]:
    """The addresses, from a sequence or from one text with commas.

    >>> service_urls("http://one:8420/, http://two:8420")
    ('http://one:8420', 'http://two:8420')
    """
    given = service.split(",") if isinstance(service, str) else service
    urls = tuple(dict.fromkeys(url.strip().rstrip("/") for url in given if url.strip()))
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise InputError(f"service {service!r} is not usable; an address such as http://127.0.0.1:8420 is needed.")
    return urls


class Turn:
    """Each address once, beginning with the first; ``leads`` has one come next.

    >>> turn = Turn(("http://one", "http://two", "http://three"))
    >>> [next(turn), turn.leads("http://three"), next(turn), next(turn)]
    ['http://one', None, 'http://three', 'http://two']
    """

    def __init__(self, urls: Sequence[str], first: str = "") -> None:
        self._left = [first, *(url for url in urls if url != first)] if first else list(urls)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self._left:
            raise StopIteration
        return self._left.pop(0)

    def leads(self, url: str) -> None:
        """Somebody who was asked says that this one leads; one that is not among them is not asked.

        A token would go there.
        """
        if url in self._left:
            self._left.remove(url)
            self._left.insert(0, url)
