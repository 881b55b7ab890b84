"""Stream processors in front of queries: handlers with state, in the loop."""
