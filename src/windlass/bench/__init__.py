"""What `windlass bench store` measures: the stores on this machine, beside what PostgreSQL could do at best.

Everything is done through the store protocol. `scenarios` holds what is done to a store, `reference` what a
good engineer would write by hand instead, `meters` the WAL, CPU and dead tuples that it costs; `on_postgres`
and `on_sqlite` set the stage, `rounds` repeats and interleaves, and `table` prints. A benchmark shows figures
beside their aims and judges nobody: no test depends on how fast a machine is.
"""
