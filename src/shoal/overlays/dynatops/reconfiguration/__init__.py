"""Brokers that change places: what roots count, and what the manager makes of it."""
