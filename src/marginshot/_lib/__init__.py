"""Tools that know nothing of the rest: files, threads, lazy names, checks."""
