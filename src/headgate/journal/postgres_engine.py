"""Connections to PostgreSQL by a URL, and what may be told of them."""

from __future__ import annotations

from sqlalchemy import Engine, create_engine, exc
from sqlalchemy.engine import URL, make_url

from headgate.core.errors import InputError
from headgate.core.extras import needing

SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
CONNECT_WITHIN_S = 5
MOST_CONNECTIONS = 10
IDLE_WITHIN_S = 5
"""A transaction whose client is silent for so long is undone by the server: one that is cut off must hold no locks."""
_CONNECTING = {
    "connect_timeout": CONNECT_WITHIN_S,
    "application_name": "headgate",
    "options": f"-c idle_in_transaction_session_timeout={IDLE_WITHIN_S}s",
    # A server that is cut off is noticed within seconds, and not when the kernel gives up.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 10_000,
}


def is_postgres(where: object) -> bool:
    """Whether something names a PostgreSQL database, and not a file.

    >>> is_postgres("postgresql://headgate@db.example/headgate"), is_postgres("run.db")
    (True, False)
    """
    return isinstance(where, str) and where.partition("://")[0] in SCHEMES and "://" in where


def postgres_url(url: str) -> URL:
    """A URL with the driver that is used; ``InputError``, which never tells a password, where it is none."""
    try:
        parsed = make_url(url) if is_postgres(url) else None
    except (exc.ArgumentError, ValueError):
        parsed = None
    if parsed is None or not parsed.database:
        raise InputError(
            "the database's URL is not usable; one such as postgresql://user:password@host:5432/name is needed."
        )
    return parsed.set(drivername="postgresql+psycopg")


def postgres_engine(url: str, most_connections: int = MOST_CONNECTIONS) -> Engine:
    """Connections to a database; those that broke while it was away are found out and made anew."""
    parsed = postgres_url(url)
    with needing("PostgreSQL"):
        import psycopg  # noqa: F401 - the driver, which SQLAlchemy would miss later and less clearly
    return create_engine(
        parsed,
        pool_pre_ping=True,
        pool_size=most_connections,
        max_overflow=0,
        connect_args=_CONNECTING,
    )


def place_of(engine: Engine) -> str:
    """Where a database is, without the password.

    >>> place_of(postgres_engine("postgresql://headgate:secret@localhost/jobs"))
    'postgresql://headgate:***@localhost/jobs'
    """
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=True)


def first_line(error: BaseException) -> str:
    """What PostgreSQL says of a fault, to be put into a sentence."""
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines()
    return (lines[0] if lines else type(cause).__name__).rstrip(".")
