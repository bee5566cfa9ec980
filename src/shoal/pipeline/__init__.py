"""From data to publications, workloads, truth and summaries: by Spark, where there is much."""
