"""A supervisor and its children: start, watch, replace and end them."""
