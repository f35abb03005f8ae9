"""Enqueue on the caller's own connection, with every driver there is an adapter for [E1]."""
