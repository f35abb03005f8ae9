"""The statement that sends a signal, as data: the store runs it on its own connection, an adapter on the
caller's [W2]. And how calls name the claims of many jobs."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.store.postgres.enqueue import Call
from windlass.store.records import ClaimedJob, Once


def claims_in(jobs: Sequence[ClaimedJob]) -> tuple[list[int], list[int], list[int]]:
    """The claims of some jobs, by lane and number, and of each job which of them it is of, from 1."""
    places: dict[tuple[int, int], int] = {}
    of = [places.setdefault((job.lane, job.claim), len(places) + 1) for job in jobs]
    return [lane for lane, _ in places], [claim for _, claim in places], of


def signal_call(schema: str, job: int, name: str, value: str, once: Once | None, *, own: bool) -> Call:
    """The call that sends a signal; `own`: in a transaction of the store's own."""
    return Call(
        f"SELECT {schema}.send_signal($1::bigint, $2::text, $3::text, $4::boolean, $5::text, $6::float8)",
        (job, name, value, own, None if once is None else once.token, None if once is None else once.lasts),
    )
