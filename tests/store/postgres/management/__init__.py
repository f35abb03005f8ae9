"""What operators and the coordinator do and see: bulk actions, listings, measures, schedules, diagnosis."""
