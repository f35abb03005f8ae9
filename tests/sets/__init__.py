"""A table of the user's that is kept equal to a source, on every driver [P6] [P11]."""
