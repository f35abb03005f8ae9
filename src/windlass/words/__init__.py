"""How records are told, to scripts and to people alike: the CLI and the web pages say the same words."""
