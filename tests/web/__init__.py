"""Mission Control: guard, service, API, streams, serving."""
