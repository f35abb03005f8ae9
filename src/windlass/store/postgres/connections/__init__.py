"""How the store reaches PostgreSQL: URLs, connections, the pool, errors and wake-ups. No jobs here."""
