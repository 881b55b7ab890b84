"""Lines in the log of the process."""
