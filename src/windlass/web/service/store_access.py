"""How every part of the service reaches the store: direct calls, answers shared for a moment, and the store's
clock."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from windlass.operations.operation import STATE_TTL
from windlass.operations.principal import Principal
from windlass.presentation.audit import AuditEntry
from windlass.presentation.cluster_state import ClusterState, read_full_state
from windlass.store.protocol import Store
from windlass.web.http.problems import problem_of
from windlass.web.service.audit import Audit
from windlass.web.service.read_cache import ReadCache

if TYPE_CHECKING:
    from windlass.app import Windlass

T = TypeVar("T")


class StoreAccess:
    """The store of an app, as the service sees it."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self.read_only: str | None = None
        """Why nothing can be changed, as of the store's last answer: it is a standby. None where it can."""
        self.cache: Final = ReadCache()
        self.slow_cache: Final = ReadCache()
        """For what no action changes, so `changed` leaves it alone."""
        self.memory: Final[dict[Hashable, Any]] = {}
        """The memory that operations keep for later ones."""
        self.audit: Final = Audit(self)

    async def ask(self, operation: Callable[[Store], Awaitable[T]]) -> T:
        """Run an operation on the store, from any loop."""

        async def asked(store: Store) -> T:
            try:
                return await operation(store)
            finally:
                self.read_only = store.read_only

        return await self._app._store_handle().acall(asked)

    async def shared(
        self, key: Hashable, ttl: float, operation: Callable[[Store], Awaitable[T]], *, lasting: bool = False
    ) -> T:
        """Run an operation, or return the answer that another request got within `ttl` seconds. `changed`
        leaves a `lasting` one alone."""
        cache = self.slow_cache if lasting else self.cache
        return await cache.get(key, ttl, lambda: self.ask(operation))

    def in_words(self, error: Exception) -> str:
        """Return what a browser may see of an error."""
        return problem_of(error, safe=True).message

    async def done(self, principal: Principal, *deeds: AuditEntry) -> None:
        """Record what somebody did, and let readers read again."""
        await self.audit.done(principal, *deeds)

    async def state(self) -> ClusterState:
        """The state of queues, workers, budgets and gates, shared."""
        return await self.shared("state", STATE_TTL, read_full_state)

    async def now(self) -> float:
        """The store's clock, computed from our own and the offset between them."""
        return time.time() + await self.shared("clock", 30.0, _clock_offset, lasting=True)

    def changed(self) -> None:
        """Something was changed: the next read must see it."""
        self.cache.clear()


async def _clock_offset(store: Store) -> float:
    before = time.time()
    there = await store.now()
    return there - (before + time.time()) / 2
