"""What is checked before anything is matched: filters against data, whose truth it is."""
