"""`python -m windlass`, the same as the script `windlass`."""

from windlass.cli import main

main(prog_name="windlass")
