"""Queries at work: what is planned once, the instances of it, and loops over a query's whole path."""
