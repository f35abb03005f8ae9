"""One worker identity at work: its sessions, claims and outcomes, and how it begins and ends."""
