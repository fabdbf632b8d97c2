"""
A scikit-learn pipeline
=======================

The classifier is an estimator like any other. Put the steps that turn items into rows before it, here a TF-IDF encoder
of texts with a truncated SVD; a sentence encoder is better and needs the extra ``texts``.
"""

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from marginshot import TransductiveMaxMarginClassifier

TEXTS = {
    "delivery": [
        "my parcel has not arrived",
        "where is my parcel",
        "the parcel arrived late",
        "the courier lost my parcel",
        "the delivery of my parcel is late",
    ],
    "billing": [
        "you charged my card twice",
        "the invoice shows the wrong amount",
        "please refund my card",
        "my card was charged the wrong amount",
        "I need an invoice for my card payment",
    ],
}
texts = [text for topic in TEXTS.values() for text in topic]
truth = np.repeat(list(TEXTS), 5)
labels = [topic if place % 5 == 0 else "" for place, topic in enumerate(truth)]  # one example each

pipeline = make_pipeline(
    TfidfVectorizer(stop_words="english"),
    TruncatedSVD(8, random_state=0),
    TransductiveMaxMarginClassifier(),
)
pipeline.fit(texts, labels)
print("right:", np.mean(pipeline[-1].transduction_ == truth))
print(pipeline.predict(["the parcel is lost", "a refund to my card"]))
