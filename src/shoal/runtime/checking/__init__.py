"""All that is wrong with a network file and with what it names, at once, for `shoal check`."""
