"""What a worker process reports: samples, events, vitals, logs, health."""
