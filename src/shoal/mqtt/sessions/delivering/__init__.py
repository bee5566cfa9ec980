"""Delivery of messages to sessions and clients, counted and bounded."""
