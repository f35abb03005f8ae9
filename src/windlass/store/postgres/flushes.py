"""Finishing on PostgreSQL: how outcomes become rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from windlass.core.seqset import compress, contains, literal, parse
from windlass.core.states import TERMINAL, WORKERS_OWN, Kind
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.encoding import AS_IT_IS, Fit
from windlass.store.postgres.gates import is_carried
from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob, Finished, Outcome

_MAY_END: Final = TERMINAL | {Kind.RETRY}
_encode = msgspec.json.Encoder().encode


async def finish(
    connection: Any,
    schema: str,
    worker: int,
    flush: int,
    outcomes: Sequence[Outcome],
    checkpointed: set[int],
    fit: Fit = AS_IT_IS,
) -> tuple[Finished, list[str]]:
    """See Store.finish. The connection may be the handler's; `checkpointed` are jobs with a checkpoint. With
    it come the gates at which somebody waits for the room that was made."""
    plain: dict[int, list[Outcome]] = {}
    ended: list[Outcome] = []
    others: list[dict[str, Any]] = []
    claim, group = 0, list[Outcome]()
    for outcome in outcomes:
        if outcome.kind is Kind.SUCCEEDED:
            job = outcome.job
            if job.claim != claim:
                claim, group = job.claim, plain.setdefault(job.claim, [])
            group.append(outcome)
            if outcome.result is not None or outcome.forget or _has_satellites(job, checkpointed):
                ended.append(outcome)
        elif outcome.kind in WORKERS_OWN:
            others.append(_other(outcome, fit))
        else:
            raise ValueError(
                f"{outcome.kind.value} is not for a worker to say; it was said of job {outcome.job.id}"
            )
    groups = list(plain.values())
    row = await connection.fetchrow(
        schemas.call("finish", 14, schema),
        worker,
        flush,
        [group[0].job.lane for group in groups] or None,
        list(plain) or None,
        [literal(compress(outcome.job.seq for outcome in group)) for group in groups] or None,
        [len(group) for group in groups] or None,
        None,  # run times, which are told of by `tell` now
        [outcome.job.id for outcome in ended] or None,
        [outcome.job.claim for outcome in ended] or None,
        [outcome.job.lane for outcome in ended] or None,
        [outcome.job.seq for outcome in ended] or None,
        [outcome.result and fit(outcome.result) for outcome in ended] or None,
        _encode(others).decode() if others else None,
        [outcome.forget for outcome in ended] if any(outcome.forget for outcome in ended) else None,
    )
    refused = list(row["refused_jobs"] or ())
    for claim, seqs in zip(row["refused_claims"] or (), row["refused_seqs"] or (), strict=True):
        ranges = parse(seqs)
        refused.extend(outcome.job.id for outcome in plain[claim] if contains(ranges, outcome.job.seq))
    return Finished(row["applied"], row["repeated"], tuple(refused)), row["freed"]


def _has_satellites(job: ClaimedJob, checkpointed: set[int]) -> bool:
    """Whether anything besides the logs may know this job: a unique key, a parent, a checkpoint, a gate, an
    earlier attempt."""
    options = job.options
    return (
        (options is not DEFAULT_OPTIONS and (options.unique_key is not None or options.part is not None))
        or job.attempt > 1
        or job.deaths > 0
        or job.id in checkpointed
        or is_carried(job.id, job.lane, job.seq)
    )


def parents_of(outcomes: Sequence[Outcome]) -> set[int]:
    """The parents whose parts may have ended with these outcomes [P9]."""
    return {
        outcome.job.options.part.parent
        for outcome in outcomes
        if outcome.job.options is not DEFAULT_OPTIONS
        and outcome.job.options.part is not None
        and outcome.kind in _MAY_END
    }


def _other(outcome: Outcome, fit: Fit) -> dict[str, Any]:
    job, error = outcome.job, outcome.error
    row: dict[str, Any] = {
        "id": job.id,
        "lane": job.lane,
        "claim": job.claim,
        "seq": job.seq,
        "kind": outcome.kind,
        "delay": outcome.delay,
    }
    if error is not None:
        row.update(type=fit(error.type), message=fit(error.message), traceback=fit(error.traceback))
    return row
