"""One SQLite file, the connections to it and the threads that own them. What is read or written through them
is not known here: an operation is a function that the store hands over.

    database             the open file: migrated, read and written through its two threads
    threads writer       a thread with its connection: one that reads, one that writes with group commit
    user_transactions    a handler's own transaction, in which its job ends or saves
    wake                 waking those who wait for a change
    connection errors    opening a file, noticing that it was replaced, and what SQLite's errors mean
"""
