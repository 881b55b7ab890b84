"""Tables, aggregations and revisions in databases: all SQL but that of the coordination database is here."""
