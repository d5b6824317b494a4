"""Work on several processes, which end with their caller."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class RunIn(Protocol):
    """Runs work on tasks, and yields the results in their order."""

    def __call__(self, work: Callable[[Task], Result], tasks: Sequence[Task], /) -> Iterator[Result]: ...


def in_processes(
    work: Callable[[Task], Result], tasks: Sequence[Task], most: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Yield the number and the result of each task as it ends; by default on as many processes as there are cores.

    After Ctrl-C, or when the caller stops iterating, remaining tasks are cancelled and the processes terminated.
    """
    with _pool(min(most or os.cpu_count() or 1, max(1, len(tasks)))) as pool:
        with _interrupts_waiting():
            waiting = {pool.submit(work, task): number for number, task in enumerate(tasks)}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


@contextmanager
def workers(count: int) -> Iterator[RunIn]:
    """Yield a function that runs work on processes, which stay for the next call."""
    with _pool(count) as pool:

        def run(work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
            with _interrupts_waiting():
                waiting = [pool.submit(work, task) for task in tasks]
            return (future.result() for future in waiting)

        yield run


@contextmanager
def _pool(count: int) -> Iterator[ProcessPoolExecutor]:
    others = set(active_children())
    # Spawned, because a fork of a process with threads may hang.
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"))
    try:
        yield pool
    except BaseException:
        for child in set(active_children()) - others:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_waiting() -> Iterator[None]:
    """Block Ctrl-C in processes started meanwhile: a terminal sends it to them too, but only this one handles it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
