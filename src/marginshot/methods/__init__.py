"""The methods of the field, all on one batched interface."""
