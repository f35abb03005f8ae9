"""Stores keep jobs: `protocol` is the contract, `sqlite` and `postgres` keep it."""
