"""`python -m windlass.cli`, for where the script `windlass` is not on the path."""

from windlass.cli import main

main(prog_name="windlass")
