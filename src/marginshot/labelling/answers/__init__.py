"""From embeddings and labels to answers: classes, names, rejection, suggestions, what to check, groups, a map."""
