"""DYNATOPS: topic trees on a structured overlay, kept short by moving users and brokers."""
