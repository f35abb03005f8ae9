"""Moving: backup of a SQLite file, the copy to PostgreSQL, and coming from a SKIP LOCKED table."""
