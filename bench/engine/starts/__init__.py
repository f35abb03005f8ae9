"""How fast children are replaced, what a start costs, and how much memory each has of its own."""
