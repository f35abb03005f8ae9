"""Runs jobs. Speaks to the store protocol only.

`runner` turns one claimed job into its outcome, `threads` runs plain functions, `outcomes` writes results
back in batches, `heartbeat` keeps the lease, `drain` puts them together for one process.
"""
