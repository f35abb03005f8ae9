"""What mypy says about the public face."""
