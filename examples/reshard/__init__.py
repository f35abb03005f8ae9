"""Rows on their way to another shard key, and no switch before all have arrived. See README.md."""
