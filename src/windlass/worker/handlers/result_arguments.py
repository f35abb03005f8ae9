"""The payload of a job that is passed results of others [W4], read when its run starts: from those jobs,
and after a sleep or a wait from the step that has kept them, since the jobs may be gone by then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from windlass.core.states import State
from windlass.endings import Dead
from windlass.errors import InvalidArguments
from windlass.running.context import Context
from windlass.store.records import ClaimedJob, GroupResults, KeptResult
from windlass.tasks.payload import fill_in
from windlass.tasks.task import RegisteredTask

AT_ONCE: Final = 1000
"""Jobs whose results are read by one question."""
SHOWN: Final = 20
"""Jobs that an error names."""
_Wanted: TypeAlias = Mapping[str, int | tuple[int, ...]]
_KEPT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def payload_with_results(task: RegisteredTask[..., Any], job: ClaimedJob, context: Context) -> str:
    """The arguments of a run as JSON text, results of other jobs among them.

    Raises Dead where a result is gone: no further attempt would find it. Raises InvalidArguments where one
    does not fit, and says of which jobs there is none."""
    may_wait = task.signature.context is not None
    kept = await context._durable.kept_results() if may_wait else None
    if kept is not None:
        return fill_in(task.unsealed(job.payload), _texts(kept))
    port = context._port
    wanted: _Wanted = {
        key: await port.group_jobs(each.group) if isinstance(each, GroupResults) else each
        for key, each in job.options.results.items()
    }
    groups = [each.group for each in job.options.results.values() if isinstance(each, GroupResults)]
    ids = list(dict.fromkeys([*groups, *(id for each in wanted.values() for id in _ids(each))]))
    found: dict[int, KeptResult] = {}
    for start in range(0, len(ids), AT_ONCE):
        found |= await port.results(ids[start : start + AT_ONCE])
    gone = [str(id) for id in ids if id not in found]
    if gone:
        raise Dead(
            f"the result of job {_some(gone)} is gone: it was deleted, or its retention has passed; "
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
        members = {id: each for id, each in found.items() if id not in groups}
        raise InvalidArguments(f"{error}{_passed_results(wanted, members)}") from error.__cause__
    if may_wait:
        raw = {key: msgspec.Raw(each.encode()) for key, each in arguments.items()}
        context._durable.pass_results(msgspec.json.encode(raw).decode())
    return text


def _some(ids: Sequence[str]) -> str:
    """The first of these by their ids, and how many more there are."""
    more = f" and {len(ids) - SHOWN:,} more" if len(ids) > SHOWN else ""
    return f"{', '.join(ids[:SHOWN])}{more}"


def _texts(kept: str) -> dict[str, str]:
    return {key: bytes(each).decode() for key, each in _KEPT.decode(kept).items()}


def _ids(each: int | tuple[int, ...]) -> tuple[int, ...]:
    return (each,) if isinstance(each, int) else each


def _text(kept: KeptResult) -> str:
    return kept.result if kept.state is State.SUCCEEDED and kept.result is not None else "null"


def _passed_results(wanted: _Wanted, found: dict[int, KeptResult]) -> str:
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
    more = [f"and so on, {len(why) - SHOWN:,} more"] if len(why) > SHOWN else []
    return "; ".join(["", named, *why[:SHOWN], *more])
