"""What an extra brings: one sentence, with the command that installs it, where it is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from headgate.core.errors import InputError

EXTRA_OF = {
    "apache_flink_libraries": "flink",
    "confluent_kafka": "kafka",
    "fastapi": "service",
    "jinja2": "service",
    "httpx": "service",
    "numba": "fast",
    "optuna": "lab",
    "pandas": "spark",
    "plotly": "reports",
    "prometheus_client": "metrics",
    "psycopg": "postgres",
    "psutil": "spark",
    "py4j": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
    "river": "learning",
    "uvicorn": "service",
}
"""Which extra brings a package that not everybody has."""


BRINGS_TOO = {"kafka": ("spark",), "lab": ("spark", "reports", "learning", "fast"), "service": ("metrics",)}
"""Extras that others bring along."""


class MissingExtraError(InputError, ImportError):
    """Packages that extras bring are not installed.

    >>> str(MissingExtraError("a demo", "pyspark", "plotly"))
    "a demo needs pyspark and plotly, which are not installed: pip install 'headgate[reports,spark]'."
    """

    def __init__(self, what: str, *modules: str) -> None:
        *others, last = (module.replace("_", "-") for module in modules)
        packages = f"{', '.join(others)} and {last}, which are" if others else f"{last}, which is"
        super().__init__(f"{what} needs {packages} not installed: pip install 'headgate[{extras_of(*modules)}]'.")


def extras_of(*modules: str) -> str:
    """The fewest extras that bring these packages, as pip takes them.

    >>> extras_of("pyspark", "confluent_kafka", "fastapi", "uvicorn")
    'kafka,service'
    """
    wanted = {EXTRA_OF[module] for module in modules}
    brought = {other for extra in wanted for other in BRINGS_TOO.get(extra, ())}
    return ",".join(sorted(wanted - brought))


@contextmanager
def needing(what: str) -> Iterator[None]:
    """Imports of the block that fail for want of an extra become one sentence.

    >>> with needing("it"):
    ...     raise ModuleNotFoundError(name="plotly.offline")
    Traceback (most recent call last):
    headgate.core.extras.MissingExtraError: it needs plotly, which is not installed: pip install 'headgate[reports]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = missing_module(error)
        if module is None:
            raise
        raise MissingExtraError(what, module) from error


def missing_module(error: BaseException) -> str | None:
    """The package of an extra that could not be imported; ``None`` where something else went wrong."""
    name = (getattr(error, "name", None) or "").partition(".")[0]
    return name if isinstance(error, ModuleNotFoundError) and name in EXTRA_OF else None


def require(what: str, *modules: str) -> None:
    """Raise, before any work is done, one error that names all missing packages."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise MissingExtraError(what, *missing)


def lazy_attributes(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package that imports each public name from its module on first use.

    >>> lazy_attributes("headgate.journal", {"sqrt": "math"})("sqrt")(9.0)
    3.0
    """

    def resolve(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return resolve
