"""Golden files: all that Windlass shows and answers, word for word, so that the code behind it may change.

    python -m tests.golden             compare, and show what differs
    python -m tests.golden --accept    write the files anew: read the difference before you commit it

`files/` holds transcripts of commands, of the API and of pages, the OpenAPI document, the public names, and
the catalogue of the PostgreSQL schema. A transcript is its own script: a line that begins with `$ ` is run on
a copy of the fixed store (`filling`), one with `& ` on the copy of the line before, and what follows is the
answer, with what it wrote into the timeline. Add a line and accept. `still` stops the clock.
"""
