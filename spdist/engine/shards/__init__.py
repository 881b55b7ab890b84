"""Shards: state as snapshots and segments, its owner, its place, and how it is laid out anew."""
