"""What `shoal match` does: line by line, on tables in this process, by Spark."""
