"""What nodes and clients say to each other, as values and as JSON."""
