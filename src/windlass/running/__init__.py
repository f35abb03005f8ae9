"""The context that a handler sees, and the way of an app's calls to its store."""
