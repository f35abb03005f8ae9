"""Faults that really break something, each with a ledger that says what must hold afterwards."""
