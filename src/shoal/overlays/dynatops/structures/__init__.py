"""Structured overlays: fixed positions, and routing between them."""
