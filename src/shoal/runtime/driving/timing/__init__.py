"""Clock of one live broker, and its timers."""
