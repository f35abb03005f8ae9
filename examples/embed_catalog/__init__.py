"""A vector for every operation of an API, kept up to date without making one twice. See README.md."""
