"""A backend of Label Studio: predictions for its tasks from the annotations so far, by its protocol for models."""
