"""A group instance as a function of batches: records in, in exact order, and records out."""
