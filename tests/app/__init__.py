"""The public face: apps, tasks, jobs, options, payloads, settings, and running until idle."""
