"""`python -m bench engine chunks`: an import by chunked jobs beside a plain loop over the same file."""
