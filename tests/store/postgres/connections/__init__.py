"""Connections: how they are made, kept and lost."""
