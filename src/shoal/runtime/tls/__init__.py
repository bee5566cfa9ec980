"""TLS of a live broker: certificates, their names and their expiry."""
