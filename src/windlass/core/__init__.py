"""Decisions without I/O, clock or randomness: values go in, values come out."""
