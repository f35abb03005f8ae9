"""Stores keep jobs: `protocol` is the contract, `memory` the model, `sqlite` and `postgres` the real ones."""
