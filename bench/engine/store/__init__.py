"""`python -m bench engine store`: the stores through their protocol, beside what one would write by hand."""
