"""A supervisor and its children: how they are watched, replaced and ended."""
