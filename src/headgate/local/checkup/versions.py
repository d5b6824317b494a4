"""Whether Python and the packages are those that Headgate was made for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata

from headgate._version import __version__
from headgate.local.checkup.finding import Finding, fine, odd, wrong

OLDEST_PYTHON = (3, 11)
_NEED = re.compile(r"^(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*(?P<range>[^;]*?)\s*(?:;\s*(?P<marker>.+))?$")
_EXTRA = re.compile(r"extra == ['\"]([\w.-]+)['\"]")
_BOUND = re.compile(r"(>=|<=|<|>|==|!=|~=)\s*([\w.]+)")
_NOT_FOR_USERS = frozenset({"dev", "docs"})


def check_versions(
    python: Sequence[int] = sys.version_info[:3],
    needs: Sequence[str] | None = None,
    version_of: Callable[[str], str | None] | None = None,
) -> Iterator[Finding]:
    told = ".".join(map(str, python))
    if tuple(python[:2]) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        yield wrong("python", f"Python {told} is too old; {oldest} or newer is needed.", f"use Python {oldest}")
    else:
        yield fine("python", f"Python {told} at {sys.executable}.")
    yield from _packages(_declared() if needs is None else needs, version_of or _installed)


def _packages(needs: Sequence[str], version_of: Callable[[str], str | None]) -> Iterator[Finding]:
    missing: dict[str, list[str]] = {}
    outside = False
    for need in needs:
        found = _NEED.match(need)
        if found is None or found["name"] == "headgate":
            continue
        extra = _EXTRA.search(found["marker"] or "")
        if extra is not None and extra[1] in _NOT_FOR_USERS:
            continue
        version = version_of(found["name"])
        if version is None and extra is None:
            remedy = "pip install --upgrade headgate"
            yield wrong("packages", f"{found['name']} is not installed, and Headgate needs it.", remedy)
            outside = True
        elif version is None and extra is not None:
            missing.setdefault(extra[1], []).append(found["name"])
        elif version is not None and not within(version, found["range"]):
            wanted = f"{found['name']}{found['range'].replace(' ', '')}"
            yield wrong(
                "packages",
                f"{found['name']} {version} is installed; Headgate needs {wanted}.",
                f"pip install '{wanted}'",
            )
            outside = True
    for extra_name, names in sorted(missing.items()):
        told = f"extra {extra_name} is not complete, for want of {', '.join(sorted(names))}."
        yield odd("packages", told, f"if you need it: pip install 'headgate[{extra_name}]'")
    if not outside:
        yield fine("packages", f"Headgate {__version__} has the packages that it needs.")


def within(version: str, wanted: str) -> bool:
    """Whether a version lies in a range of bounds.

    >>> within("2.10.1", ">=2.9,<3"), within("3.0", ">=2.9,<3"), within("2.9rc1", ">=2.9"), within("1", "")
    (True, False, True, True)
    """
    mine = _parts(version)
    for sign, bound in _BOUND.findall(wanted):
        other = _parts(bound)
        length = max(len(mine), len(other))
        left, right = (parts + (0,) * (length - len(parts)) for parts in (mine, other))
        kept = {">=": left >= right, ">": left > right, "<": left < right, "<=": left <= right, "==": left == right}
        if not kept.get(sign, True):
            return False
    return True


def _parts(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()


def _declared() -> Sequence[str]:
    return metadata.requires("headgate") or ()


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
