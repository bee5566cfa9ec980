"""Links that break, come back and go, and who is used for what meanwhile."""
