"""The tests of Windlass. `python -m tests` runs all of them, with lint and types; see CONTRIBUTING.md."""
