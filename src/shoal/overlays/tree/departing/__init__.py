"""How a broker leaves a tree, and who speaks for those that are not there."""
