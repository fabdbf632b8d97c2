"""One labelling run, from Python or the command line."""
