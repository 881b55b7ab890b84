"""What editors need of an app that is being written: completion, tooltips, tokens."""
