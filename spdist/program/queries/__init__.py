"""The blocks of queries in the text of a program: totals, results, chunks, rate limits."""
