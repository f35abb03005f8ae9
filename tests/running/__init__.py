"""What producers and workers share at run time: contexts, checkpoints, hooks, event loops, outages."""
