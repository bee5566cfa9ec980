"""Links that break, come back and end, and the brokers used for each purpose meanwhile."""
