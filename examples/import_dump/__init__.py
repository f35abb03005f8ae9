"""A dump of a million lines into a table, on every core, resumed where it stopped. See README.md."""
