"""The stores, each in a folder of its own. What all of them promise is in tests/conformance."""
