"""MQTT 5 and 3.1.1, the server's side, sans-IO: bytes in, bytes and broker requests out."""
