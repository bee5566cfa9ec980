"""Matching for `shoal match`: line by line, on tables in this process, by Spark."""
