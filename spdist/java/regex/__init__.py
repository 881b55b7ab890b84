"""Java's regular expressions: read as Java reads them, run by Python's `re`, or in counted steps."""
