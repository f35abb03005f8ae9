"""Jobs in PostgreSQL: state is a fold over three append-only logs. `PostgresStore` is the way in.

It needs asyncpg and is imported when asked for: producers with another driver do without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]


def __getattr__(name: str) -> object:
    if name == "PostgresStore":
        from windlass.store.postgres.store import PostgresStore

        return PostgresStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
