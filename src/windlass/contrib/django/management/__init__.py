"""`manage.py windlass`, `windlass_worker` and `windlass_migrate`."""
