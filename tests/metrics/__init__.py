"""What Prometheus is told, and what `deploy/` makes of it."""
