"""Keeps secrets out of what is written down: tokens of this service, and passwords in addresses.

>>> redacted("see postgresql://ana:s3cret@db/x, or hg_0123456789012345678901234567890123456789012")
'see postgresql://ana:…@db/x, or hg_…'
"""

from __future__ import annotations

import re
from typing import TypeVar, cast

from headgate.core.types import JSON
from headgate.service.store.tokens import PREFIX

_TOKEN = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{20,}}")
_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")
T = TypeVar("T")


def redacted(text: str) -> str:
    return _PASSWORD.sub(r"\1…@", _TOKEN.sub(f"{PREFIX}…", text))


def without_secrets(value: T) -> T:
    """The same with all texts in it redacted."""
    plain: JSON = value
    if isinstance(plain, str):
        return cast(T, redacted(plain))
    if isinstance(plain, dict):
        return cast(T, {key: without_secrets(one) for key, one in plain.items()})
    if isinstance(plain, list | tuple):
        return cast(T, [without_secrets(one) for one in plain])
    return value
