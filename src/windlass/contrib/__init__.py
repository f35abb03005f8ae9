"""Bridges to other libraries. Nothing here is imported before somebody uses it."""
