"""What makes workers one cluster: beats, terms, duties, slots."""
