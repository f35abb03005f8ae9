"""The pure core: unit tests for its words, property tests for its decisions."""
