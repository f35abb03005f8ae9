"""What `windlass bench` measures on this machine, each verb a run of its own.

    store    the stores, beside what PostgreSQL could do at best: `on_stores`
    worker   jobs through worker processes: `on_workers`
    chunks   an import by chunked jobs beside a plain loop: `chunks`
    flow     what keys, budgets, order and schedules cost: `flow`
    web      Mission Control with a great many jobs in store: `web`

Stores are measured through the store protocol. `scenarios` holds what is done to a store, `reference` what a
good engineer would write by hand instead, `meters` the WAL, CPU and dead tuples that it costs; `on_postgres`
and `on_sqlite` set the stage, `rounds` repeats and interleaves, and `table` prints. A benchmark shows figures
beside their aims and judges nobody: no test depends on how fast a machine is.
"""
