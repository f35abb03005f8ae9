"""What is special to the SQLite store: its file, its threads and its processes. The rest is conformance."""
