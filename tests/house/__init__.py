"""How the tree itself stands: its rooms, its sizes, and which way its imports go."""
