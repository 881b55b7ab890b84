"""The coordination database: leaders, nodes, apps and the journal."""
