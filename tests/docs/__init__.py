"""The documentation: its code runs, its links lead somewhere, and nothing is left out of it."""
