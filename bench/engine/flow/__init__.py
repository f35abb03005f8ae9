"""`python -m bench engine flow`: what keys, budgets, order and schedules cost."""
