"""The pages, as a browser without scripts gets them."""
