"""Tests of `python -m bench`: Windlass beside its peers."""
