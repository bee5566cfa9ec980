"""A dispatcher: it takes clients, asks matchers, and hands on what they find."""
