"""A Siddhi app as a function from Spark DataFrames to a Spark DataFrame, in the user's own Spark session."""
