"""Says what is wrong with the files of a certificate, before anything is served with them."""

from __future__ import annotations

import ssl
from pathlib import Path

from headgate.core.errors import InputError, cause_of
from headgate.service.config.model import Tls


def require_usable(tls: Tls) -> None:
    """Refuse files that TLS cannot be spoken with, in a sentence that names the one at fault."""
    for path in (tls.certificate, tls.key):
        try:
            path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key, _no_password)
    except _NeedsPassword:
        raise InputError(
            f"key {tls.key} is encrypted; one without a password is needed, for nobody could type it."
        ) from None
    except ssl.SSLError as error:
        raise InputError(_why(tls, error)) from error


class _NeedsPassword(Exception):
    """A key can be read only with a password."""


def _no_password() -> str:
    # Without it OpenSSL would ask on the terminal, and wait.
    raise _NeedsPassword


def _why(tls: Tls, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"key {tls.key} is not that of certificate {tls.certificate}."
    if not _is_certificate(tls.certificate):
        return f"{tls.certificate} holds no certificate in PEM form."
    if "PEM" in str(error) or error.reason == "NO_START_LINE":
        return f"{tls.key} holds no private key in PEM form."
    return f"certificate {tls.certificate} and key {tls.key} cannot be used: {error.reason.replace('_', ' ').lower()}."


def _is_certificate(path: Path) -> bool:
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        return False
    return True
