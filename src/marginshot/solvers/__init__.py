"""How it is minimised."""
