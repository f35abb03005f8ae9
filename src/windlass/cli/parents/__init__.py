"""The commands about chunked jobs: their lists, the page of one at a terminal, and watching it."""
