"""Limits, keys and budgets: what decides which jobs may run now."""
