"""Stateless apps as Spark Columns, where the meanings agree."""
