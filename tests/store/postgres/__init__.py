"""What only PostgreSQL has: forced schedules, roles, migrations, plans, and SQL as an interface."""
