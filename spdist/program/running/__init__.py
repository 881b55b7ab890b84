"""A program at work: its arrays, texts and calls of operators."""
