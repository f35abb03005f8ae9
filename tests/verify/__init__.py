"""What must hold before a release and takes too long for every commit: `python -m tests.verify`.

One module per step, each with a function that answers a list of figures (`figures.py`). The steps need the
tools of the extra `verify`; the commit's own check, `python -m tests`, needs none of them.
"""
