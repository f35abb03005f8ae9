"""Reads and acts of the admin's pages on the store, without requests and templates: the operations
that commands and Mission Control run, too."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeVar

import msgspec

from windlass.app import Windlass
from windlass.core.states import State
from windlass.errors import JobNotFound
from windlass.operations import jobs as operations
from windlass.operations.job_views import JobView
from windlass.operations.jobs import ListedJobs, Listing
from windlass.operations.operation import Ops
from windlass.operations.principal import Principal, Role
from windlass.presentation.audit import record
from windlass.presentation.cluster_state import read_state
from windlass.presentation.text import span
from windlass.store.protocol import Store

T = TypeVar("T")
logger: Final = logging.getLogger("windlass.django")
Verb = Literal["retry", "cancel"]


class QueueRow(msgspec.Struct, frozen=True):
    """A queue in a listing; `counts` are ready, running, scheduled, retrying, dead."""

    name: str
    counts: tuple[int, ...]
    oldest: str
    workers: int
    state: str


def list_jobs(app: Windlass, asked: Listing) -> ListedJobs:
    """Return a page of jobs, newest first. Raises Invalid for a cursor that is none."""
    return _operate(app, lambda ops: operations.list_jobs(ops, asked))


def show_job(app: Windlass, id: int) -> JobView | None:
    """Return one job, or None."""
    try:
        return _operate(app, lambda ops: operations.show_job(ops, id))
    except JobNotFound:
        return None


def list_queues(app: Windlass) -> list[QueueRow]:
    """Every queue, by name."""

    async def ask(store: Store) -> list[QueueRow]:
        state = await read_state(store)
        rows = []
        for name in state.names():
            depth = state.depth_of(name)
            oldest = "" if depth.oldest is None else span(depth.oldest)
            serving = state.view.serving.get(name, 0)
            rows.append(QueueRow(name, depth.counts, oldest, serving, state.in_words(name)))
        return rows

    return app._store_handle().call(ask)


def manage(
    app: Windlass, verb: Verb, ids: Sequence[int], by: str, only: State | None = None
) -> dict[int, str]:
    """Retry or cancel jobs, only those in the state `only` where it is given. Recorded in the timeline
    [M2]."""
    return _operate(app, lambda ops: operations.act(ops, verb, ids, only), by)


def _operate(app: Windlass, work: Callable[[Ops], Awaitable[T]], by: str = "") -> T:
    async def operated(store: Store) -> T:
        ops = Ops(app, store, Principal(by, Role.OPERATE))
        answer = await work(ops)
        if error := await record(store, ops.deeds, by):
            logger.warning("an action of %s is not in the timeline: %s", by, error)
        return answer

    return app._store_handle().call(operated)
