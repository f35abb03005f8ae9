"""What works beside the engine: instruments."""
