"""Jobs in PostgreSQL: state is a fold over three append-only logs. `PostgresStore` is the way in."""

from windlass.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
