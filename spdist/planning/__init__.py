"""From a checked app to execution groups and the topics between them; and how that is drawn."""
