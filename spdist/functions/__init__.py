"""Scalar functions, aggregators and stream functions: signature and meaning, side by side."""
