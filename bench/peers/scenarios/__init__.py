"""What is measured. Each scenario takes a peer on the servers of the run and returns plain figures by name.

A figure that cannot be had is left out, never guessed. `name` is the key in the results.
"""
