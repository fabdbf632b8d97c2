"""FS-TMMC as a scikit-learn classifier, for one task of any size."""
