"""Files that are read, and files that are appended to."""
