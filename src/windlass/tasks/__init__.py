"""What users declare: tasks, their options and limits, schedules, and how they are found."""
