"""Group instances as queries of Spark: the session, its processes, sources and tasks."""
