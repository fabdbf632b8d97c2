"""What is minimised: value and gradient of one task."""
