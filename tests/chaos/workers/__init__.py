"""Faults of real worker processes: supervisors and children killed, stopped, hung and replaced."""
