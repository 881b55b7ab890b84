"""Tables in the text of a program."""
