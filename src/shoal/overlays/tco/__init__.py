"""TCO: an overlay in which the subscribers of each topic reach each other without relays."""
