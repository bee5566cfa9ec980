"""An ordinary week of a network: clients that do not follow redirects, and an operator's work."""
