"""Expressions as generated Python, and conditions that look for rows."""
