"""The cluster that workers on many hosts make. Speaks to the store protocol only.

A `member` stands for one host: it sends heartbeats for its workers, assigns their slots, and runs for
`coordinator`. The coordinator's `duties` are idempotent steps that may also be run by hand; `watch`
tells the dead workers from the living.
"""
