"""A broker's MQTT clients as clients of its machine."""
