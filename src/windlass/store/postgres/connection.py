"""A connection that knows PostgreSQL's own array types.

asyncpg asks the server about every type that it does not know, on each connection anew. Our statements take
and give arrays, so a new connection asked three to five times: up to three round trips each, and 5 to 10 ms
of the server's processor, which a crowd of workers that begins, or a command that runs for a moment, feels.
The types that PostgreSQL brings along have the same numbers everywhere, so one answer does for a process.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import asyncpg

ARRAYS: Final = frozenset({1000, 1001, 1005, 1007, 1016, 1022, 1185})
"""boolean[], bytea[], smallint[], int[], bigint[], float8[], timestamptz[] in pg_type; it knows text[]."""


class Connection(asyncpg.Connection):  # type: ignore[misc]
    """As asyncpg's own, which asks once in a process. The method that it overrides is not public: should it
    be called no more one day, asyncpg asks again, and all else stays as it is."""

    _told: ClassVar[Any] = None

    async def _introspect_types(self, typeoids: Any, *args: Any, **options: Any) -> Any:
        if not ARRAYS.issuperset(typeoids):
            return await super()._introspect_types(typeoids, *args, **options)
        if Connection._told is None:
            Connection._told = await super()._introspect_types(ARRAYS, *args, **options)
        return Connection._told
