"""Lanes, claims, holes and fences; outcomes and checkpoints; who waits for whom meanwhile."""
