"""SQLite and PostgreSQL driven step by step beside the memory store, which says what should have happened."""
