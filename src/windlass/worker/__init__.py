"""Runs jobs. Speaks to the store protocol only.

    supervisor ── process ──(channel, status memory)── child ── engine ── worker session ── runner
    embedded (app.worker) ─────────────────────────────────────┘            │
    app.run_until_idle ─────────────────────────────────────────────────────┘

A `worker_session` is the work of one worker identity: it claims, runs and writes outcomes back. An `engine`
works under one identity after another; a `child` is an engine in a process of its own, which a `supervisor`
starts, sends heartbeats for and replaces. The `runner` turns one claimed job into its outcome; `threads` and
`processes` (over the warm `pool`) run plain functions. `handback` settles what a dead child held.
"""
