"""The command `windlass`."""
