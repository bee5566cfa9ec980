"""The commands, a module each; none knows another."""
