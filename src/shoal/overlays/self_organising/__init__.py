"""Cost and Interest: a tree whose brokers exchange its links for better ones."""
