"""Other people's software beside a network of processes, with its defaults, as in ordinary days."""
