"""Tests of the cluster that workers are: heartbeats, terms, duties, slots."""
