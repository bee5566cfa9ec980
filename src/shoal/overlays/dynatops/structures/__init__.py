"""Structured overlays: fixed positions, and how a message gets from one to another."""
