"""Joins of windows, tables and aggregations."""
