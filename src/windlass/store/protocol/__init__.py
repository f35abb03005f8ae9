"""The promises of a store. Three stores keep these promises and one conformance suite checks them all.

The operations are few, coarse and shaped for batches. Each is atomic: it happens as a whole or, when it
raises, not at all. Each may be called again after its answer was lost; where that would matter, the contract
says how the second call is told from the first. Any of them may raise StoreUnavailable.

Each module of a store has its own protocol; `Store` is all of them together. Time is the store's
own in all of it: a worker whose clock is wrong does no harm [fault 14].

Words: a *lane* is one queue × priority. A *claim* is a batch of jobs of one lane leased to one
worker; its id is the fencing token. A job *offered* again keeps its id and goes to the back of its lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from windlass.store.protocol.durable import Durable, Groups
from windlass.store.protocol.jobs import NOTHING, Claims, Deferred, Enqueue, Outcomes, Parents, Workers
from windlass.store.protocol.operations import (
    Budgets,
    Cluster,
    Limits,
    Listing,
    Management,
    Measures,
    Retention,
    Schedules,
)

if TYPE_CHECKING:
    from windlass.store.records import Migration

__all__ = ["NOTHING", "Store"]


class Store(
    Enqueue, Claims, Outcomes, Durable, Groups, Workers, Deferred, Parents,
    Management, Listing, Limits, Budgets, Schedules, Cluster, Measures, Retention,
    Protocol,
):  # fmt: skip
    """Where jobs live."""

    @property
    def read_only(self) -> str | None:
        """Why nothing can be written here, in words, as far as the last call has shown; None where it can.
        What writes raises StoreReadOnly then, and what reads works."""

    async def open(self) -> None:
        """Connect. Idempotent. Raises SchemaMissing or SchemaTooNew where `migrate` has not brought the
        schema to a version this code can work with (SQLite and memory migrate by themselves)."""

    async def close(self) -> None:
        """Let go of every connection. Idempotent; the store can be opened again."""

    async def migrate(self) -> Migration:
        """Bring the schema to this code's version. Safe when many processes call it at once; refuses a
        newer schema with SchemaTooNew and changes nothing then."""
