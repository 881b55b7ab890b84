"""What Java's own classes do, for apps that were written against them; nothing here knows SiddhiQL."""
