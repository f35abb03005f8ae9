"""One suite for every store: each test reads the contract of `windlass.store.protocol` to all of them."""
