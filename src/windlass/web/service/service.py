"""The service: it runs the operations of `windlass.operations` for the API and the pages alike.

It checks the role that an operation needs [M5], and adds what was done to the timeline, as an event of kind
`operator` with the name of who did it (see `audit`). What many viewers ask for is read at most once a second
and shared (see `store_access`), as are the streams of jobs (see `streams`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from windlass.operations.bulk import BulkOperations
from windlass.operations.operation import Operation, Ops
from windlass.operations.principal import Principal
from windlass.presentation.audit import AuditEntry
from windlass.store.protocol import Store
from windlass.web.service.store_access import StoreAccess
from windlass.web.service.streams import Streams

if TYPE_CHECKING:
    from windlass.app import Windlass

P = ParamSpec("P")
R = TypeVar("R")


class Service:
    """The service that the API and the pages call."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self.store: Final = StoreAccess(app)
        self.audit: Final = self.store.audit
        self.streams: Final = Streams(self.store)

    async def run(
        self,
        principal: Principal,
        operation: Operation[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Run an operation for somebody whose role allows it; what it did goes to the timeline [M2] [M5]."""
        principal.require(operation.role)

        async def asked(store: Store) -> tuple[R, list[AuditEntry]]:
            ops = Ops(self._app, store, principal, self.store)
            return await operation(ops, *args, **kwargs), ops.deeds

        answer, deeds = await self.store.ask(asked)
        if deeds:
            await self.audit.done(principal, *deeds)
        return answer

    async def close(self) -> None:
        """Stop what runs in the background."""
        if (bulks := self.store.memory.get(BulkOperations)) is not None:
            await bulks.close()
        await self.audit.close()
