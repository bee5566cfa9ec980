"""What is done without Spark where there is little of it."""
