"""What records carry: events as Arrow between groups, JSON and XML of outsiders, headers."""
