"""Reports of a worker process: samples, events, vitals, logs, health."""
