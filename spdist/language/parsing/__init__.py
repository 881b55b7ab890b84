"""From text to syntax tree: the grammar and its tables, the parser, and words for syntax errors."""
