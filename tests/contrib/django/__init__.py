"""Windlass in a Django project: the one in examples/django_shop, on SQLite and on PostgreSQL."""
