"""Who may call a node: users, sessions, tokens, identity providers, certificates."""
