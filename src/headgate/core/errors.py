"""Every error Headgate raises on purpose.

::

    HeadgateError
    ├── InputError            what the user gave is not usable: the CLI prints it and exits with 2
    │   ├── UnknownNameError  a misspelt name, with the closest one that exists
    │   └── TokenRefusedError a service does not take the token that it was given
    ├── EngineError           the engine could not be observed or changed
    │   ├── EngineGoneError   it has ended for good: there is nothing left to scale
    │   ├── QueryFailedError  a managed query has failed in a way that starting it again cannot heal
    │   ├── UnsupportedEngineError   this session or version cannot be scaled, and what to change
    │   ├── ControllerAwayError      the controller of an agent does not answer just now
    │   │   └── NotLeadingError      who answered stands by, and another leads or soon will
    │   └── SupersededError          another agent has taken the place of this one
    ├── ServiceAwayError      a service does not answer who asks or changes things
    ├── FetchError            what is fetched when it is first needed cannot be had
    ├── OutputError           a result cannot be written, for want of space or leave: the CLI exits with 3
    │   └── UnwritableJournalError   the same of a journal
    ├── JournalError          the journal cannot be read or written
    │   └── DeposedError      another service leads now: this one may not write any more
    └── StateError            saved state does not fit what it is restored into

A message is one sentence that carries the value received and what was allowed.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable

_FAULTS_OF_THE_DISK = (errno.EACCES, errno.EDQUOT, errno.EIO, errno.ENOSPC, errno.EPERM, errno.EROFS)
_NUMBERED = re.compile(r"^\[Errno -?\d+\] ")


class HeadgateError(Exception):
    """The root of all errors raised on purpose."""


class InputError(HeadgateError):
    """Input that cannot be used; the message says what was received and what was allowed."""


class UnknownNameError(InputError):
    """A name that does not exist, answered with the closest one that does.

    >>> str(UnknownNameError("policy", "reactiv", ["static", "reactive"]))
    "unknown policy 'reactiv', did you mean 'reactive'? Known: reactive, static."
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = sorted(known)
        close = difflib.get_close_matches(name, self.known, n=1, cutoff=0.5)
        hint = f", did you mean {close[0]!r}?" if close else "."
        listed = ", ".join(self.known) if self.known else "none"
        super().__init__(f"unknown {kind} {name!r}{hint} Known: {listed}.")


class TokenRefusedError(InputError):
    """A service does not take the token that it was given; asking again with the same one is of no use."""


class EngineError(HeadgateError):
    """The engine could not be observed or changed just now."""


class EngineGoneError(EngineError):
    """The engine has ended for good: there is nothing left to scale."""


class QueryFailedError(EngineError):
    """A managed query has failed in a way that starting it again cannot heal."""


class UnsupportedEngineError(EngineError):
    """This session or version cannot be scaled; the message says what to change."""


class ControllerAwayError(EngineError):
    """The controller of an agent does not answer just now; the job keeps its size."""


class NotLeadingError(ControllerAwayError):
    """Who answered stands by; ``leader`` is where the one is that leads, if that is known."""

    def __init__(self, message: str, leader: str = "") -> None:
        super().__init__(message)
        self.leader = leader


class SupersededError(EngineError):
    """Another agent has joined as the same operator; this one has nothing to say any more."""


class ServiceAwayError(HeadgateError):
    """A service does not answer just now; nothing was changed as far as is known."""


class FetchError(HeadgateError):
    """What is fetched when it is first needed cannot be had just now."""


class OutputError(HeadgateError):
    """A result cannot be written: the disk is full, or may only be read. The work behind it was not at fault."""


class JournalError(HeadgateError):
    """The journal cannot be read or written."""


class DeposedError(JournalError):
    """Another service leads now; what this one wanted to write was refused."""


class UnwritableJournalError(JournalError, OutputError):
    """The journal cannot be written."""


class StateError(HeadgateError):
    """Saved state does not fit what it is restored into."""


def cause_of(error: BaseException) -> str:
    """What the system says of a fault, to be put into a sentence.

    >>> cause_of(OSError(28, "No space left on device"))
    'no space left on device'
    >>> cause_of(RuntimeError("[Errno 111] Connection refused")), cause_of(TimeoutError())
    ('connection refused', 'TimeoutError')
    """
    message = error.strerror if isinstance(error, OSError) and error.strerror else _NUMBERED.sub("", str(error))
    return message.lower().rstrip(".") or type(error).__name__


def not_written(what: str, error: OSError, remedy: str = "") -> InputError | OutputError:
    """What is raised of something that cannot be written, with the cause: the same kind of error for the same fault.

    >>> not_written("run.html cannot be written", OSError(30, "Read-only file system"))
    OutputError('run.html cannot be written: read-only file system.')
    """
    kind = OutputError if is_of_the_disk(error) else InputError
    return kind(f"{what}: {cause_of(error)}{remedy}.")


def is_of_the_disk(error: OSError) -> bool:
    """Whether a place could be written to at other times; one that never can be is a mistake in the input."""
    return error.errno in _FAULTS_OF_THE_DISK
