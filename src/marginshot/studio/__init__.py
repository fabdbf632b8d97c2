"""The page on a labelling session: a server for this machine and its static files; nothing of the method lives here."""
