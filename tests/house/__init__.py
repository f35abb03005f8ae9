"""How the tree itself stands: its modules, its sizes, and which way its imports go."""
