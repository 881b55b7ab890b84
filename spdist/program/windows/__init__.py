"""Windows in the text of a program."""
