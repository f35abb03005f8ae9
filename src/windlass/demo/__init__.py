"""`windlass demo`: an import in parts, a worker killed half-way, and proof that nothing was lost or doubled.

data     the file that is imported, and what must be true of its records
app      the app that the workers load: one chunked task
table    where the records go, on SQLite and on PostgreSQL
crew     the worker processes, and the one that is killed
watch    what is shown meanwhile
mission  Mission Control, for as long as the play lasts
proof    what the imported table says
run      the play: make, import, kill, wait, prove, clean up
"""
