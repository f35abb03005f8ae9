"""Servers as users have them: encodings, settings, rights, addresses, standbys [S1]."""
