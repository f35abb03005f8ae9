"""Tests of `python -m bench engine`."""
