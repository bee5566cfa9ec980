"""What goes through a live broker, by samples: who and what is heavy, and how long it takes."""
