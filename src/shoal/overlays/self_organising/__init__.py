"""Cost and Interest: a tree with exchange of links for better ones."""
