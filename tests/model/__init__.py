"""SQLite and PostgreSQL driven step by step beside the oracle, which says what should have happened."""
