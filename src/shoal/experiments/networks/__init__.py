"""Networks that a scenario names: which brokers are linked, and how long a message takes."""
