"""What Mission Control knows and does, for the API and the pages alike."""
