"""Placement of users at brokers with the same topics."""
