-- One record, on SQLite. Callers: table.insert, in the transaction of a batch. Lock: the file's write lock.
INSERT INTO {table} (id, part, worker, customer, amount, at, note) VALUES (?, ?, ?, ?, ?, ?, ?)
