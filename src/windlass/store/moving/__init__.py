"""Stores that go elsewhere: the copy of a SQLite store that is in use (`backup`), and what waits in one on
its way to PostgreSQL (`copy`). What imports jobs there is in `postgres.sql`."""
