"""The file and those who have it open: threads, forks, processes, transactions of users, errors."""
