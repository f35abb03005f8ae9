"""Windlass alone, part by part: `python -m bench engine`, each verb a run of its own.

    store    enqueue, claim and finish through the store protocol, beside what PostgreSQL could do at best
    chunks   an import by chunked jobs beside a plain loop
    flow     what keys, budgets, order and schedules cost
    web      Mission Control with a great many jobs in store

What worker processes do from end to end is measured beside peers: `python -m bench --peers skip_locked`.
Each verb has a folder with its plan, its scenarios and its report. `run` leads one of them over the stores,
`places` gives each an empty store, `rounds` repeats and interleaves, and `table` prints. A benchmark shows
figures beside their aims and judges nobody: no test depends on how fast a machine is.
"""
