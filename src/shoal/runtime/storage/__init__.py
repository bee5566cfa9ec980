"""What a live broker has on disk: its journal, its spools, the overlay as it is."""
