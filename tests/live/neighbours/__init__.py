"""Other projects' software beside a network of processes, with default settings."""
