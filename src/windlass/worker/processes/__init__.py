"""A supervisor and its children: start, hear, replace and end them."""
