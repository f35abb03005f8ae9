"""Everything that can be seen and done through Mission Control, for API and pages alike."""
