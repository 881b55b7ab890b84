"""Any connector of Spark, batch by batch."""
