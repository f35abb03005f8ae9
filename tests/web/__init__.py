"""Mission Control: guard, desk, API, streams, serving."""
