"""Decisions of flow control."""
