"""Tasks: how they are declared and found, their options, arguments, limits and schedules."""
