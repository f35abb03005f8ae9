"""One worker identity at work: claim, run, write back."""
