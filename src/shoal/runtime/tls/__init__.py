"""TLS of a live broker: certificates, who they say it is, and until when."""
