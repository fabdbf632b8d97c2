"""From the columns of a dataset to predictions: what the operator and the panel share, without FiftyOne's App."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import fiftyone as fo
from marginshot.labelling import label_embeddings

CHECK = "marginshot-check"


@dataclass(frozen=True)
class Summary:
    """What a labelling wrote: numbers of samples, and the share of labels expected to be right."""

    n_labelled: int
    n_given: int
    n_to_check: int
    expected: float | None

    def __str__(self) -> str:
        right = "" if self.expected is None else f" About {self.expected:.0%} of the labels should be right."
        checks = f"{self.n_to_check:,} are tagged {CHECK}."
        return f"{self.n_labelled:,} samples labelled from {self.n_given:,}.{right} {checks}"


def label_view(view, embeddings: str, labels: str, predictions: str, target: float = 0.95) -> Summary:
    """Label the samples of a view that have embeddings; raises ValueError where there is too little to go by."""
    if predictions == labels:
        raise ValueError("Predictions need a field of their own: labels given by hand stay as they are.")
    there = view.exists(embeddings)
    ids, rows = there.values(["id", embeddings])
    given = [name or "" for name in there.values(f"{labels}.label")]
    if not ids:
        raise ValueError(f"No sample has embeddings in the field {embeddings!r}; compute them first.")
    if len({name for name in given if name}) < 2:
        raise ValueError(f"Labels of at least two classes are needed in the field {labels!r}.")
    result = label_embeddings(np.stack(rows), given, items=ids)
    work = result.worklist(target).rows.tolist()
    found = zip(ids, result.labels, result.probabilities, strict=True)
    made = {own: fo.Classification(label=label, confidence=sure) for own, label, sure in found}
    dataset = view._dataset
    dataset.set_values(predictions, made, key_field="id")
    dataset.match_tags(CHECK).untag_samples(CHECK)
    if work:
        dataset.select([ids[row] for row in work]).tag_samples(CHECK)
    expected = result.expected_accuracy()
    n_given = sum(map(bool, given))
    return Summary(len(ids), n_given, len(work), None if expected is None else expected.value)
