"""How records are shown, to scripts and to people: one wording for the CLI, the API, the pages and Django."""
