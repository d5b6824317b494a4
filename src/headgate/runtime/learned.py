"""What a policy has learned, as a file: a snapshot in JSON, or the journal of a run that learned it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from headgate.core.contracts import Policy
from headgate.core.errors import InputError, cause_of
from headgate.core.types import JSON
from headgate.journal.sqlite import SqliteJournal

_SQLITE = b"SQLite format 3\x00"


def state_key(job: str, operators: Sequence[str], policy: Policy) -> str:
    """The key under which journals keep what a policy with its settings has learned of a job."""
    settings = getattr(policy, "settings", None)
    chosen = json.dumps(settings.model_dump(mode="json") if settings is not None else {}, sort_keys=True)
    digest = hashlib.sha256(chosen.encode()).hexdigest()[:12]
    return f"job/{job}/operators/{','.join(operators)}/policy/{policy.name}/settings/{digest}"


def startup_key(job: str) -> str:
    """The key under which journals keep how long new instances of a job's operators take to be of use."""
    return f"job/{job}/startup"


def budget_key(job: str) -> str:
    """The key under which journals keep how the error budgets of a job stand, and what it has cost."""
    return f"job/{job}/budget"


def read_state(path: Path | str, policy: str) -> Mapping[str, JSON]:
    """The snapshot of a policy from a file of either kind."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            is_journal = file.read(len(_SQLITE)) == _SQLITE
        text = "" if is_journal else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is neither a snapshot in JSON nor a journal.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    state = _from_journal(path, policy) if is_journal else _from_text(path, text)
    if state.get("policy") != policy:
        raise InputError(f"{path} holds the state of policy {state.get('policy')!r}; that of {policy!r} is needed.")
    return state


def _from_journal(path: Path, policy: str) -> Mapping[str, JSON]:
    with closing(SqliteJournal.read(path)) as journal:
        found = [
            state
            for key in journal.state_keys()
            if f"/policy/{policy}/" in key and (state := journal.load_state(key)) is not None
        ]
    if not found:
        raise InputError(f"journal {path} holds nothing that policy {policy!r} has learned.")
    return found[-1]


def _from_text(path: Path, text: str) -> Mapping[str, JSON]:
    if not text.strip():
        raise InputError(f"{path} is not a snapshot: it is empty.")
    try:
        state = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is not a snapshot: {error}.") from error
    if not isinstance(state, Mapping):
        raise InputError(f"{path} is not a snapshot: it holds {type(state).__name__}, an object is needed.")
    return state
