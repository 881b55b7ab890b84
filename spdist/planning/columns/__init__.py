"""What of an app Spark may compute as Columns."""
