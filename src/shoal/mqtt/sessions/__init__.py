"""Sessions of a broker's clients, their subscriptions, and retained messages."""
