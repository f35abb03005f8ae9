"""Running jobs: what handlers may do, and what the drain makes of it."""
