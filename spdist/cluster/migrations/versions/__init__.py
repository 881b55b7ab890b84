"""One module for each version of the tables, in the order of their numbers. What is published is never changed.

Each can be repeated: it may have been interrupted half way, and MySQL takes nothing back. So it creates what is
missing; the first two thereby make of a database of spdist 0.12 or 0.13, which kept no version, one that has.
"""
