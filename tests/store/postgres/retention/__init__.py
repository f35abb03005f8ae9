"""The ring of segments: carries, rotation and reclaiming, and the adoption of a copy."""
