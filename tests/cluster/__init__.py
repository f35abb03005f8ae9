"""What makes workers one cluster: heartbeats, terms, duties, slots."""
