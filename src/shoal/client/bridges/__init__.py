"""Bridges between a shoal network and other MQTT brokers: file, lanes, metrics."""
