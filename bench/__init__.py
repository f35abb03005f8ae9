"""Windlass beside what one would otherwise pick, measured in one run on one machine.

    python -m bench                 everything, up to two hours       (make bench)
    python -m bench --quick         a look, up to fifteen minutes     (make bench-quick)
    python -m bench --peers windlass,procrastinate --scenarios drain
    python -m bench --server wheel      on that PostgreSQL instead of the stock one of this machine
    python -m bench page bench/results/2026-11-16      draw the page anew

Each peer lives in `peers/<name>/`: one program that speaks the words of `kit/bench_kit.py`, run by the
interpreter of a virtual environment with pinned versions (`venvs.py`). `ground.py` gives each measurement a
fresh database on one PostgreSQL, or a fresh Redis, or a file. `scenarios/` measures; what ran is read from
the ledger that handlers write, never from what a library says. `run.py` interleaves: a round measures every
peer once, in turn, so what slows the machine slows all. `page.py` says what was found, also where Windlass
loses.
"""
