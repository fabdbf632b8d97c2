"""A labelling session: what is said is a log, answers follow, and numbers tell what to do next."""
