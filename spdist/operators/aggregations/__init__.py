"""Incremental aggregations: totals in calendar buckets."""
