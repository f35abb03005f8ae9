"""Tests of the benchmark: that it measures what it says. Nothing here depends on how fast a machine is."""
