"""`python -m bench engine growth`: what calls cost as more lies around that they are not about."""
