"""In whose order a publisher's publications enter a cluster, whichever way they took."""
