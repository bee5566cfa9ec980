"""Order of each publisher's publications at the entry of a cluster, on any paths."""
