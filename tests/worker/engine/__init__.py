"""One worker identity at work: its shifts, claims and outcomes, and how it begins and ends."""
