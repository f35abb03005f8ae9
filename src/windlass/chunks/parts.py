"""A part of a chunked job, as its handler sees it: a context that knows what it covers.

    @app.chunked(split=NDJSON("256MiB"))
    async def load(part: Part, path: str) -> None:
        async for batch in part.batches(1000):      # starts at the part's checkpoint
            await index(batch.records)
            await batch.done()                      # durable, fenced

How a part is read and its batches are made is the business of `windlass.chunks.batches`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Unpack

from windlass.errors import ConfigurationError
from windlass.running.context import Context
from windlass.running.encoding import decode
from windlass.running.port import Port
from windlass.store.records import ClaimedJob, PartOf

if TYPE_CHECKING:
    from windlass.chunks.batches import Batches, Work
    from windlass.testing.context import TestPart, TestPartFields

FINAL: Final = -1
"""The index of the finalizer's job."""


class Part(Context):
    """One run of one part, as its handler sees it; everything that a Context has, and what it covers."""

    __slots__ = ("_work",)

    def __init__(self, job: ClaimedJob, port: Port) -> None:
        super().__init__(job, port)
        self._work: Work | None = None

    @staticmethod
    def for_test(  # type: ignore[override]  # a part in place of a context, and more fields
        task: str = "test.task", **fields: Unpack[TestPartFields]
    ) -> TestPart:
        """A part for calling a handler directly in a test: `await load(Part.for_test(records=[…]), "file")`.

        What it saves is kept in memory; see `windlass.testing.context` for the fields."""
        from windlass.testing.context import TestPart

        return TestPart(task, fields)

    @property
    def parent(self) -> int:
        """The parent's id: the same for all its parts, and over all their attempts [P4]."""
        return self._part.parent

    @property
    def index(self) -> int:
        """Which part this is, from 0."""
        return self._part.index

    @property
    def total(self) -> int:
        """How many parts the parent has."""
        return self._part.total

    @property
    def span(self) -> Any:
        """The span that the part covers, as its splitter planned it.

        That is [lo, hi] of `Ranges` and `Shards`, the items of `Items`, the value that a function gave, and
        of a file {"start": …, "end": …, "stamp": …}, in bytes. `PartRecord.span` is the same."""
        return decode(self._port.span(self.task, self._part))

    @property
    def created_at(self) -> datetime:
        """When the parent was split, in UTC."""
        return datetime.fromtimestamp(self._part.created_at, UTC)

    def batches(self, n: int | None = None) -> Batches:
        """The part's records in batches of up to `n`, from its checkpoint on: `async for` in an `async def`
        handler, `for` in a plain one. Each batch is to be `done()` before the next one is asked for.

        A setting of the task in the store goes before `n`, and `n` before the task's `batch=` [P6]."""
        if self._work is None:
            raise ConfigurationError("a finalizer has no records of its own: batches() is for parts")
        return self._work.batches(n)

    def _encoded(self, data: Any) -> str:
        if self._work is not None and self._work.reads:
            raise RuntimeError(
                f"part {self.index} of parent {self.parent} reads batches, and its checkpoint is theirs: say "
                "batch.done() instead of save(), and keep other data in a table of your own"
            )
        return super()._encoded(data)

    @property
    def _typical(self) -> bool:
        # To split a job takes no time beside its parts: taken for typical, parts would be claimed ahead.
        part = self._job.options.part
        return part is not None and part.index != FINAL

    @property
    def _part(self) -> PartOf:
        part = self._job.options.part
        if part is None:
            raise ConfigurationError(f"job {self.id} is a parent that is being split, and no part of one")
        return part
