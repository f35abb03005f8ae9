"""Windlass beside what one would otherwise pick, measured in one run: `python -m bench`. `run` interleaves
the peers of `subjects`, `scenarios/` measures, `page` says what was found, also where Windlass loses."""
