"""How many jobs a store holds, in whatever state: the proof that nothing was written."""

from windlass import Windlass
from windlass.store.records import JobFilter


def count_jobs(app: Windlass) -> int:
    """All jobs of an app, up to a thousand."""
    return len(app._store_handle().call(lambda store: store.jobs(JobFilter(), 1000)).jobs)
