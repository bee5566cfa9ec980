"""The clients of a live broker: MQTT over sockets, and those in its own process."""
