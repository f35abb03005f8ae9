"""What only PostgreSQL has: forced schedules of real connections, roles, migrations, plans and SQL as an interface."""
