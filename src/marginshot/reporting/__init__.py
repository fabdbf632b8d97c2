"""Results as tables, figures and pages; nothing here runs a method."""
