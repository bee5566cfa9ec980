"""Sampled traffic of a live broker: heavy hitters and latency."""
