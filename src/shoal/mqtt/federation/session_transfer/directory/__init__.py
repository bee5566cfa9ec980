"""The session directory: the brokers of clients, and their announcement to other brokers."""
