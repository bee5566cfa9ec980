"""From publications to who publishes what where, who wants it, and when."""
