"""Messages on their way into sessions and to clients, counted and bounded."""
