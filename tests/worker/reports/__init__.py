"""What a worker process reports: samples, events, logs, health."""
