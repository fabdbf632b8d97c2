"""The page on a labelling session: a local server and its static files, without anything of the method."""
