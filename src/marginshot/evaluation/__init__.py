"""The protocol: many tasks, every method on the same ones, numbers one can trust."""
