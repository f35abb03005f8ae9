"""The benchmark: Windlass beside what one would otherwise pick, and the parts of its engine alone.

    python -m bench                 beside its peers, up to two hours      (make bench)
    python -m bench --quick         a look, up to fifteen minutes          (make bench-quick)
    python -m bench page FOLDER     draw the page of such a run anew
    python -m bench engine store    the stores alone; also chunks, flow and web
    python -m bench servers         Windlass on the stock PostgreSQL and on that of a wheel, in turns
    python -m bench --help          all of it

`servers.py` gives each measurement a fresh database on one PostgreSQL, a fresh Redis, or a file; `meters.py`
reads what it costs. `peers/` measures beside others: each is one program in `peers/programs/<name>/` that
speaks the words of `peers/kit/bench_kit.py`, run by the interpreter of a virtual environment with pinned
versions; what ran is read from the ledger that handlers write, never from what a library says. `engine/`
measures part by part, through the store protocol. Both interleave: a round measures each side of a comparison
once, in turn, so what slows the machine slows all.
"""
