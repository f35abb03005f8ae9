"""An agent that asks a human."""
