"""A live broker's state on disk: its journal, its spools, its overlay."""
