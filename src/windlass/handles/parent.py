"""The handle of one parent: how far its parts are, and the ways to manage them. It holds an id and asks the
store each time. What every job can do (cancel, await its result) it does as a Job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from windlass.codec import Codec, Purpose, unseal
from windlass.errors import JobNotFound
from windlass.handles.details import ParentDetails, PartDetails, parent_details, part_details
from windlass.running.encoding import decode, encode
from windlass.store.protocol import Store
from windlass.store.records import ParentRecord

if TYPE_CHECKING:
    from windlass.running.store_handle import StoreHandle

_PAGE: Final = 10_000


class Parent:
    """A job that was split into parts."""

    __slots__ = ("_codec", "_store_handle", "id")

    def __init__(
        self, id: int, *, store_handle: Callable[[], StoreHandle], codec: Codec | None = None
    ) -> None:
        self.id: Final = id
        """The id of the job that was split."""
        self._store_handle = store_handle
        self._codec = codec

    def __repr__(self) -> str:
        return f"<Parent {self.id}>"

    def record(self) -> ParentDetails:
        """How far it is. Raises JobNotFound where there is no such parent, or none yet."""
        return self._details(self._store_handle().call(lambda store: store.parent(self.id)))

    async def arecord(self) -> ParentDetails:
        """How far it is; see `record`."""
        return self._details(await self._store_handle().acall(lambda store: store.parent(self.id)))

    def parts(self, *, start: int = 0, limit: int = _PAGE) -> list[PartDetails]:
        """Its parts by index, from `start` on [P4]. Raises CodecError when the app's codec cannot read what
        they cover."""
        return self._store_handle().call(lambda store: self._parts(store, start, limit))

    async def aparts(self, *, start: int = 0, limit: int = _PAGE) -> list[PartDetails]:
        """Its parts by index, from `start` on; see `parts`."""
        return await self._store_handle().acall(lambda store: self._parts(store, start, limit))

    def set(self, *, parallel: int | None) -> ParentDetails:
        """Change how many of its parts may run at a time, while it runs; None: any number [P8]."""
        return self._details(
            self._store_handle().call(lambda store: store.set_parent(self.id, parallel=parallel))
        )

    async def aset(self, *, parallel: int | None) -> ParentDetails:
        """Change how many of its parts may run at a time, while it runs; None: any number [P8]."""
        return self._details(
            await self._store_handle().acall(lambda store: store.set_parent(self.id, parallel=parallel))
        )

    def redrive(self) -> int:
        """Run those of its parts again that are dead or cancelled, each from its last checkpoint [P9];
        answers with how many that are."""
        return self._store_handle().call(lambda store: store.redrive(self.id))

    async def aredrive(self) -> int:
        """Run those of its parts again that are dead or cancelled; see `redrive`."""
        return await self._store_handle().acall(lambda store: store.redrive(self.id))

    async def _parts(self, store: Store, start: int, limit: int) -> list[PartDetails]:
        found = [part_details(part) for part in await store.parts(self.id, start=start, limit=limit)]
        if self._codec is None or not found:
            return found
        purpose = Purpose("span", self._found(await store.parent(self.id)).task)
        spans = (unseal(self._codec, encode(part.span), purpose) for part in found)
        return [
            msgspec.structs.replace(part, span=decode(span)) for part, span in zip(found, spans, strict=True)
        ]

    def _details(self, record: ParentRecord | None) -> ParentDetails:
        return parent_details(self._found(record))

    def _found(self, record: ParentRecord | None) -> ParentRecord:
        if record is None:
            raise JobNotFound(
                f"there is no parent {self.id}: the job was not split yet, is no chunked one, or its "
                "retention has passed"
            )
        return record
