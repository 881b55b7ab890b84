"""Commands of the command line that are larger than a call: `spdist.__main__` puts them together."""
