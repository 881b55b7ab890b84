"""Runs apps: in virtual time without Spark, and as Spark streaming queries over topics."""
