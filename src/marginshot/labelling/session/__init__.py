"""A labelling session: a log of labels, the answers computed from it, and estimates of their accuracy."""
