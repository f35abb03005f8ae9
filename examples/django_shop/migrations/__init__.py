"""The steps of the shop's schema."""
