"""Outputs: the result, its table, gallery, class folders, exports and model, and how a stopped run is resumed."""
