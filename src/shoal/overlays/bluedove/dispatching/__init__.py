"""A dispatcher: it serves clients, sends publications to matchers, and forwards their results."""
