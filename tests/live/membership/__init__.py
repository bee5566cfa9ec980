"""Ordinary days of every system: brokers join, leave and come back while plain clients publish."""
