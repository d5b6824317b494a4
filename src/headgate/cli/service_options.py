"""What commands that ask a service have in common: where it is, and the token that says who asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.core.errors import InputError, cause_of

if TYPE_CHECKING:
    from headgate.client import Client

ServiceOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL[,URL]",
        help="The service, or several of which one leads; HEADGATE_SERVICE, or port 8420 here, where not given.",
        show_default=False,
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file with the token; HEADGATE_TOKEN where not given. Reading on the service's machine needs none.",
        show_default=False,
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The certificate to trust, where not everybody does.", show_default=False),
]
WhyOption = Annotated[str, typer.Option(metavar="TEXT", help="Why, for those who wonder later; it is kept.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The name of the job.", show_default=False)]


def client_of(service: str | None, token_file: Path | None, certificate: Path | None) -> Client:
    """A client with what the command line says."""
    from headgate.client import Client

    token = None if token_file is None else read_token(token_file)
    return Client(service, token, certificate=None if certificate is None else str(certificate))


def read_token(path: Path) -> str:
    """The token in a file."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file {path} cannot be read: {cause_of(error)}.") from error
    if not text or len(text.split()) != 1:
        raise InputError(f"--token-file {path} does not hold a token: one word is needed.")
    return text
