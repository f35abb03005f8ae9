"""What worker processes cost by being there: connections, memory, and the store's idle work."""
