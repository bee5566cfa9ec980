"""The front end: a broker's MQTT clients as clients of its broker machine."""
