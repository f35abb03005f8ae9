"""The schema: migrations, roles, functions as text, SQL as an interface."""
