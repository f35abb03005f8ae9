"""The SQLite store: one file, no server, several processes of one machine.

A job's place is its key: the row of a ready job stands at (lane, seq), packed into the integer primary key of
the job table, and a lane's cursor says how far its jobs have been claimed. So a claim is one range of that
key, the end of a batch is one UPDATE over a range, and the hot path touches no second index. A job that is
offered again *moves* to a new place and carries its id with it. See migrations/0001_schema.sql for the tables
and the invariants they keep. What the end of a job means for others (its parent, jobs that come after it,
those that wait for its slot) is done in the same transaction, by `deferred.settle`.

    store                                   every operation of the protocol, by the module that does it
    enqueue claims outcomes workers         the operations: functions of one write transaction each, or of a
    deferred parents management cluster     connection in a read transaction; statements in sql/, a file for
    budgets schedules measures listing      each module
    retention
    transitions waiting_lists claim_limits  what they are made of
    parts
    transaction lanes limits budget_rows    what one operation has loaded and changed in memory
    rows schema                             the rows of jobs, the migration, SQL files
    connections/                            the file, its threads and their connections

A module imports only those below it in this order: deferred knows parents, parents know outcomes, outcomes
know claims, and all of them know transitions.
"""

from windlass.store.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
