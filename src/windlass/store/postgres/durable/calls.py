"""The statement that sends a signal, as data: the store runs it on its own connection, an adapter on the
caller's [W2]."""

from __future__ import annotations

from windlass.store.postgres.enqueue import Call
from windlass.store.records import Once


def signal_call(schema: str, job: int, name: str, value: str, once: Once | None, *, own: bool) -> Call:
    """The call that sends a signal; `own`: in a transaction of the store's own."""
    return Call(
        f"SELECT {schema}.send_signal($1::bigint, $2::text, $3::text, $4::boolean, $5::text, $6::float8)",
        (job, name, value, own, None if once is None else once.token, None if once is None else once.lasts),
    )
