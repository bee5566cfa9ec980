"""What the clients of one broker have subscribed to, alone and in groups."""
