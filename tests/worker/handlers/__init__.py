"""Handlers on the loop, in threads and in processes: how they are called, and how they end."""
