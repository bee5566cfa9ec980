"""MQTT topics and topic filters: which filter matches which topic."""
