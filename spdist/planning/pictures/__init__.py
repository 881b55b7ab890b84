"""Topologies and apps as pictures: text, SVG and HTML."""
