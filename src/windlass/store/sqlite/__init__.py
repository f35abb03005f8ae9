"""The SQLite store: one file, no server, several processes of one machine.

A job's place is its key: the row of a ready job stands at (lane, seq), packed into the integer primary key of
the job table, and a lane's cursor says how far its jobs have been claimed. So a claim is one range of that
key, the end of a batch is one UPDATE over a range, and the hot path touches no second index. A job that is
offered again *moves* to a new place and carries its id with it. See migrations/0001_jobs.sql for the tables
and the invariants they keep, migrations/0003_parents.sql for those of parents and parts, and
migrations/0004_flow.sql for those of gates. What the end of a job means for others (its parent, jobs that
come after it, those in line for its slot) is done in the same transaction, by `settle`.

    store flowing measuring base                the protocol on top
    enqueue claims finish workers promote       the operations: functions of one write transaction each
    steering queues cluster retention rotation
    splitting cascade tasks terms
    tokens governor schedules                   those of flow control
    news                                        those of measures
    joint                                       a handler's own transaction, in which its job ends or saves
    lookup listing progress diagnose work       reading
    charts health
    transaction births moves lanes leases rows  what the operations are made of
    settle parents parts after deaths
    gates lines order budgets tolls             the same, where jobs wait for room or for tokens
    turns limits admission
    writer reader line fork wake                threads, their connections, and who waits for them
    connection schema statements trouble        opening a file, SQL files, errors
    machine                                     which host this is
"""

from windlass.store.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
