"""One module for each command, named after it; what they share is in `management.passing`."""
