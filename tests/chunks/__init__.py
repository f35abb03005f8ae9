"""Chunked jobs, their splitters and the reconciler."""
