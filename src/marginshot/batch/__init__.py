"""Many small tasks at once, compiled."""
