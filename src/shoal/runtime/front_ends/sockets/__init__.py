"""Clients' network connections: TCP, TLS and WebSocket."""
