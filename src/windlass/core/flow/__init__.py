"""Decisions of flow control: budgets, breakers, limits, the adaptive rate, shedding."""
