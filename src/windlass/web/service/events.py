"""Events by queue, job and kind [M2]."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from windlass.operations.principal import Principal, Role
from windlass.presentation.events import EventShape
from windlass.presentation.text import iso
from windlass.store.protocol import Store
from windlass.store.records import EventRecord
from windlass.web.service.shapes import FoundEvents
from windlass.web.service.store_access import StoreAccess

MAX_EVENTS: Final = 500
MAX_PAGES: Final = 10
"""Pages that are read back for events of some kinds, at most."""


class Events:
    """What can be seen of the timeline."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    async def find(
        self,
        principal: Principal,
        queue: str | None = None,
        job: int | None = None,
        limit: int = 100,
        before: int | None = None,
        kinds: Collection[str] = (),
    ) -> FoundEvents:
        """Events of these kinds (none: of any), the latest first, and how far back the search went: no store
        has an index by kind. With `before`, those with a lower id."""
        principal.require(Role.READ)
        limit = max(1, min(limit, MAX_EVENTS))

        async def ask(store: Store) -> FoundEvents:
            return await _search(store, queue, job, limit, before, kinds)

        # Many viewers read the latest events; older pages and those of one job are rarely read twice.
        alone = job is not None or before is not None
        key = ("events", queue, limit, *sorted(kinds))
        return await (self._store.ask(ask) if alone else self._store.shared(key, 1.0, ask))


async def _search(
    store: Store, queue: str | None, job: int | None, limit: int, before: int | None, kinds: Collection[str]
) -> FoundEvents:
    """Read pages of events until there are enough, or MAX_PAGES were read."""
    found: list[EventRecord] = []
    size, looked, back_to, last = (MAX_EVENTS if kinds else limit), 0, None, False
    for _ in range(MAX_PAGES if kinds else 1):
        page = await store.events(queue=queue, job=job, limit=size, before=before)
        for event in page:
            before, looked = event.id, looked + 1
            back_to = event.at if back_to is None else min(back_to, event.at)
            if not kinds or event.kind in kinds:
                found.append(event)
                if len(found) == limit:
                    break
        last = len(found) < limit and len(page) < size
        if last or len(found) == limit:
            break
    return FoundEvents(
        events=[EventShape.of(event) for event in found],
        looked=looked,
        before=None if last or before is None else str(before),
        back_to=iso(back_to),
    )
