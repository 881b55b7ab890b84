"""SiddhiQL: text to syntax tree and back, and what an app means before anything runs."""
