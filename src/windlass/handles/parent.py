"""The handle of one parent: how far its parts are, and the ways to manage them. It holds an id and asks the
store each time. What every job can do (cancel, await its result) it does as a Job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from windlass.codec import Purpose, unseal
from windlass.handles.details import ParentDetails, PartDetails, parent_details, part_details
from windlass.handles.handle import _Handle
from windlass.operations import parents
from windlass.operations.operation import Ops
from windlass.running.encoding import decode, encode

if TYPE_CHECKING:
    from windlass.app import Windlass

_PAGE: Final = 10_000


class Parent(_Handle):
    """A job that was split into parts."""

    __slots__ = ("id",)

    def __init__(self, app: Windlass, id: int) -> None:
        super().__init__(app)
        self.id: Final = id
        """The id of the job that was split."""

    def __repr__(self) -> str:
        return f"<Parent {self.id}>"

    def record(self) -> ParentDetails:
        """How far it is. Raises JobNotFound where there is no such parent, or none yet."""
        return parent_details(self._run(lambda ops: parents.find(ops.store, self.id)))

    async def arecord(self) -> ParentDetails:
        """How far it is; see `record`."""
        return parent_details(await self._arun(lambda ops: parents.find(ops.store, self.id)))

    def parts(self, *, start: int = 0, limit: int = _PAGE) -> list[PartDetails]:
        """Its parts by index, from `start` on [P4]. Raises CodecError when the app's codec cannot read what
        they cover."""
        return self._run(lambda ops: self._parts(ops, start, limit))

    async def aparts(self, *, start: int = 0, limit: int = _PAGE) -> list[PartDetails]:
        """Its parts by index, from `start` on; see `parts`."""
        return await self._arun(lambda ops: self._parts(ops, start, limit))

    def set(self, *, parallel: int | None) -> ParentDetails:
        """Change how many of its parts may run at a time, while it runs; None: any number [P8]."""
        return parent_details(self._run(lambda ops: parents.change(ops, self.id, parallel)))

    async def aset(self, *, parallel: int | None) -> ParentDetails:
        """Change how many of its parts may run at a time, while it runs; None: any number [P8]."""
        return parent_details(await self._arun(lambda ops: parents.change(ops, self.id, parallel)))

    def redrive(self) -> int:
        """Run those of its parts again that are dead or cancelled, each from its last checkpoint [P9];
        answers with how many that are. Raises JobNotFound."""
        return self._run(lambda ops: parents.redrive_parent(ops, self.id)).redriven

    async def aredrive(self) -> int:
        """Run those of its parts again that are dead or cancelled; see `redrive`."""
        return (await self._arun(lambda ops: parents.redrive_parent(ops, self.id))).redriven

    async def _parts(self, ops: Ops, start: int, limit: int) -> list[PartDetails]:
        found = [part_details(part) for part in await ops.store.parts(self.id, start=start, limit=limit)]
        codec = self._app.codec
        if codec is None or not found:
            return found
        purpose = Purpose("span", (await parents.find(ops.store, self.id)).task)
        spans = (unseal(codec, encode(part.span), purpose) for part in found)
        return [
            msgspec.structs.replace(part, span=decode(span)) for part, span in zip(found, spans, strict=True)
        ]
