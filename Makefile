# Shorthands for people. Nothing depends on make: each target is one command of CONTRIBUTING.md.
PYTHON ?= .venv/bin/python

.PHONY: test lint verify postgres16 stock pythons soak bench bench-wide bench-quick

test:           ## everything a commit must pass: lint, format, types, tests
	$(PYTHON) -m tests

lint:           ## the fast half of it
	$(PYTHON) -m tests --lint

verify:         ## what a release must pass besides: coverage, mutants, advisories, packages
	$(PYTHON) -m tests.verify

postgres16:     ## the suite of all stores on an older server, all of it
	$(PYTHON) -m pytest -m postgres16 -n auto --dist worksteal

stock:          ## the same on the system's own server with its default settings, and what else runs there
	$(PYTHON) -m pytest -m stock -n auto --dist worksteal

pythons:        ## core, app and the suite of all stores on every Python that is installed
	$(PYTHON) -m tests.matrix

soak:           ## long runs under load and faults
	$(PYTHON) -m pytest -m soak --timeout 0

bench:          ## Windlass beside its peers, two hours at most: bench/results/<date>; more: python -m bench --help
	$(PYTHON) -m bench

bench-wide:     ## the same, once and shorter, half an hour at most
	$(PYTHON) -m bench --plan wide

bench-quick:    ## a look at the peers on PostgreSQL, fifteen minutes
	$(PYTHON) -m bench --plan quick
