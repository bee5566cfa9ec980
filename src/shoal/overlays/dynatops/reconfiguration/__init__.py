"""Brokers that change places: counts of roots, and the manager's plans."""
