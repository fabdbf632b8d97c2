"""From pictures to features: backbones, base training, datasets and extraction (the extra ``vision``).

Everything that needs torch lives here; the rest of marginshot reads the feature files written here.
"""
