"""The larger examples, run as their users would run them."""
