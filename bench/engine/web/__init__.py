"""`python -m bench engine web`: Mission Control with a great many jobs in store."""
