"""Ordinary days of each system: brokers join, leave and return while plain clients publish."""
