"""Declarations of users: tasks, their options and limits, schedules, and how they are found."""
