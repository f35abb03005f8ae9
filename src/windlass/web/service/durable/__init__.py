"""What operators and programs ask of jobs that wait: signals, streams, groups."""
