"""The payload of a job that is handed the results of others [W4], read when its run starts: from those jobs,
and after a sleep or a wait from the step that has kept them, since the jobs may be gone by then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.core.states import State
from windlass.errors import InvalidArguments
from windlass.running.context import Context
from windlass.signals import Dead
from windlass.store.records import ClaimedJob, KeptResult
from windlass.tasks.payload import fill_in
from windlass.tasks.task import RegisteredTask

_KEPT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def handed_payload(task: RegisteredTask[..., Any], job: ClaimedJob, context: Context) -> str:
    """The arguments of a run as JSON text, results of other jobs among them.

    Raises Dead where a result is gone: no further attempt would find it. Raises InvalidArguments where one
    does not fit, and says of which jobs there is none."""
    may_wait = task.signature.context is not None
    kept = await context._durable.handed() if may_wait else None
    if kept is not None:
        return fill_in(task.unsealed(job.payload), _texts(kept))
    wanted = job.options.results
    ids = list(dict.fromkeys(id for each in wanted.values() for id in _ids(each)))
    assert context._port is not None
    found = await context._port.results(ids)
    gone = [str(id) for id in ids if id not in found]
    if gone:
        raise Dead(
            f"the result of job {', '.join(gone)} is gone: it was deleted, or its retention has passed; "
            "enqueue this job anew with jobs that are there, or raise the retention of their queue"
        )
    arguments = {
        key: _text(found[each]) if isinstance(each, int) else f"[{','.join(_text(found[id]) for id in each)}]"
        for key, each in wanted.items()
    }
    text = fill_in(task.unsealed(job.payload), arguments)
    try:
        task.signature.decode(text)
    except InvalidArguments as error:
        raise InvalidArguments(f"{error}{_handed(wanted, found)}") from error.__cause__
    if may_wait:
        raw = {key: msgspec.Raw(each.encode()) for key, each in arguments.items()}
        context._durable.hand(msgspec.json.encode(raw).decode())
    return text


def _texts(kept: str) -> dict[str, str]:
    return {key: bytes(each).decode() for key, each in _KEPT.decode(kept).items()}


def _ids(each: int | tuple[int, ...]) -> tuple[int, ...]:
    return (each,) if isinstance(each, int) else each


def _text(kept: KeptResult) -> str:
    return kept.result if kept.state is State.SUCCEEDED and kept.result is not None else "null"


def _handed(wanted: Mapping[str, int | tuple[int, ...]], found: dict[int, KeptResult]) -> str:
    """Which arguments are results of which jobs, and which of these have none, and why."""
    named = ", ".join(
        f"{key!r} is the result of job {each}" if isinstance(each, int) else f"{key!r} is a list of results"
        for key, each in wanted.items()
    )
    why = [
        f"job {id} {'returned nothing' if kept.state is State.SUCCEEDED else f'is {kept.state.value}'}"
        for id, kept in found.items()
        if _text(kept) == "null"
    ]
    return "; ".join(["", named, *why])
