"""What `shoal plan` reads, and how it says a plan."""
