"""What a query puts out: projection, aggregators, order, rate limits."""
