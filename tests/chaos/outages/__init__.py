"""Outages between the worker and its store, met by real worker processes."""
