"""Jobs that come in: keys, bad input, single enqueues that share a statement, and those that start later."""
