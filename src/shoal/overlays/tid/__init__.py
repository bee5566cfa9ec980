"""TID: trees with identifiers on any connected graph; the baseline of OctopiA."""
