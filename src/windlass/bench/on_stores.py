"""The run on the stores themselves, one module for each kind."""

from windlass.bench.on_postgres import measure as on_postgres
from windlass.bench.on_sqlite import measure as on_sqlite

__all__ = ["on_postgres", "on_sqlite"]
