"""An app whose queries run as one compiled program."""
