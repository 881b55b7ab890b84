"""Windows, each with its state."""
