"""Parents and their parts: how far each is, a strip that shows every part, redrive and parallelism [P10]."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Final

from windlass.core.progress import Look
from windlass.core.states import State
from windlass.operations.principal import Principal, Role
from windlass.presentation import audit
from windlass.presentation.parents import DRAWN, ParentShape, Parts, read_parts, strip_of, with_errors
from windlass.presentation.retries import RetryingShape, retrying_of
from windlass.presentation.waiting import state_in_words
from windlass.store.protocol import Store
from windlass.store.records import ParentRecord, PartRecord
from windlass.web.http.problems import Invalid, NotFound
from windlass.web.service.audit import Actions, Audit
from windlass.web.service.shapes import ParentView, PartView
from windlass.web.service.store_access import StoreAccess

CELLS: Final = 2_000
"""How long a strip is at most."""

LETTERS: Final[dict[State, str]] = dict(zip(DRAWN, "dctrqws", strict=True))
"""The letter of each state, the worst first. A part that is due later is `q` like one that is due now."""


def strip(states: Sequence[State], cells: int = CELLS) -> tuple[str, int]:
    """The strip, and how many parts a letter stands for."""
    worst, each = strip_of(states, cells)
    return "".join(LETTERS[state] for state in worst), each


MAX_PARALLEL: Final = 100_000
MAX_PARTS: Final = 100_000
"""Parts that a strip covers. Of a parent with more, it shows the first ones."""
MAX_LISTED: Final = 1_000
_RATE_SPAN: Final = 60.0
"""Seconds over which the rate of a parent is computed."""
_MAX_REMEMBERED: Final = 500
"""Parents whose earlier readings are kept."""


class Parents(Actions):
    """What can be seen of parents and done to them."""

    def __init__(self, store: StoreAccess, audit: Audit) -> None:
        super().__init__(store, audit)
        self._readings: OrderedDict[int, list[Look]] = OrderedDict()

    # -- reads ------------------------------------------------------------------------------------------

    async def latest(self, principal: Principal, active: bool = False, limit: int = 50) -> list[ParentShape]:
        """Parents, the one split last first; with `active` only those that have not ended."""
        principal.require(Role.READ)
        limit = max(1, min(limit, 500))

        async def read(store: Store) -> tuple[list[ParentRecord], dict[int, RetryingShape]]:
            found = await store.parents(active=active, limit=limit)
            return found, await retrying_of(store, found)

        found, retrying = await self._store.shared(("parents", active, limit), 1.0, read)
        return [
            ParentShape.of(parent, *self._read(parent), retrying=retrying.get(parent.id)) for parent in found
        ]

    async def get(self, principal: Principal, id: int) -> ParentView:
        """One parent, with its strip and the parts that need attention. Raises NotFound."""
        principal.require(Role.READ)
        found = await self._store.shared(("parent", id), 0.5, lambda store: store.parent(id))
        if found is None:
            raise NotFound(
                f"there is no parent {id}: its job was not split, was deleted, or its retention has passed"
            )
        parts = await self._all_parts(found)
        retrying = await self._store.shared(("retrying", id), 1.0, lambda store: retrying_of(store, [found]))
        drawn, each = strip(parts.states)
        return ParentView.of(
            found,
            *self._read(found),
            retrying=retrying.get(id),
            strip=drawn,
            strip_parts=len(parts.states),
            strip_each=each,
            letters={letter: str(state) for state, letter in LETTERS.items()},
            states={str(state): n for state, n in Counter(parts.states).items()},
            needing=[part_view(part) for part in parts.needing],
        )

    async def parts(self, principal: Principal, id: int, start: int = 0, limit: int = 100) -> list[PartView]:
        """Parts by index, from `start` on."""
        principal.require(Role.READ)
        limit = max(1, min(limit, MAX_LISTED))

        async def read(store: Store) -> list[PartRecord]:
            return await with_errors(store, await store.parts(id, start=max(start, 0), limit=limit))

        return [part_view(part) for part in await self._store.ask(read)]

    async def _all_parts(self, parent: ParentRecord) -> Parts:
        """Shared for longer where there are many: the more a read costs, the less often it is done."""
        ttl = 1.0 + min(parent.total, MAX_PARTS) / 50_000
        if parent.finished_at is not None:
            ttl += 10.0
        key = ("parts", parent.id, parent.finished_at)
        return await self._store.shared(key, ttl, lambda store: read_parts(store, parent.id, MAX_PARTS))

    def _read(self, parent: ParentRecord) -> list[Look]:
        """The readings of a parent over the last minute, this one included."""
        readings = self._readings.pop(parent.id, [])
        now = time.time()
        if not readings or now - readings[-1][0] >= 1.0:
            readings.append((now, parent))
        else:
            readings[-1] = (readings[-1][0], parent)
        while len(readings) > 2 and readings[1][0] < now - _RATE_SPAN:
            del readings[0]
        self._readings[parent.id] = readings
        while len(self._readings) > _MAX_REMEMBERED:
            self._readings.popitem(last=False)
        return list(readings)

    # -- actions ----------------------------------------------------------------------------------------

    async def set_parallel(self, principal: Principal, id: int, parallel: int | None) -> ParentView:
        """Change how many parts of a parent may run at a time, also while it runs [P8]."""
        principal.require(Role.OPERATE)
        if parallel is not None and not 1 <= parallel <= MAX_PARALLEL:
            raise Invalid(
                f"parallel must be a whole number from 1 to {MAX_PARALLEL:,}, not {parallel}", "parallel"
            )
        if await self._store.ask(lambda store: store.set_parent(id, parallel=parallel)) is None:
            raise NotFound(f"there is no parent {id}")
        await self._audit.done(principal, audit.set_parallel(id, parallel))
        return await self.get(principal, id)

    async def redrive(self, principal: Principal, id: int) -> int:
        """Run the dead and cancelled parts of a parent again. Returns how many [P9]."""
        principal.require(Role.OPERATE)
        if await self._store.ask(lambda store: store.parent(id)) is None:
            raise NotFound(f"there is no parent {id}")
        redriven = await self._store.ask(lambda store: store.redrive(id))
        await self._audit.done(principal, audit.redriven(id, redriven))
        return redriven


def part_view(part: PartRecord) -> PartView:
    """A part, and its state in words."""
    return PartView.of(part, state_text=state_in_words(part))
