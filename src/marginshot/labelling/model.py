"""A fitted labeller in one file without pickle: the planes, the rule for foreign items, and the encoder's name."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from marginshot._lib.files import DAMAGED_ARCHIVE, atomic_path
from marginshot.classifier.estimator import TransductiveMaxMarginClassifier
from marginshot.classifier.persistence import assert_format
from marginshot.labelling.classify import Answers, apply_rows
from marginshot.labelling.collection import Kind
from marginshot.labelling.rejection import Rejection
from marginshot.labelling.tables import stack_embeddings

FORMAT = "marginshot-labeller-1"

_HEADER, _CLASSIFIER, _REJECTION = "about.json", "classifier.npz", "rejection.npz"

# What reading a file that is no model, or half of one, may raise; RuntimeError is zipfile's for what it cannot unpack.
_DAMAGES = (ValueError, KeyError, TypeError, OSError, RuntimeError, *DAMAGED_ARCHIVE)


@dataclass(frozen=True)
class LabelModel:
    """What labels new items, no examples needed.

    Parameters
    ----------
    classifier : TransductiveMaxMarginClassifier
        The fitted planes.
    rejection : Rejection
        The rule for items of none of the classes.
    kind : {"picture", "text", "embedding"}
        What it was fitted on.
    encoder : str
        Name of the encoder; empty for embeddings.
    identity : str
        Identity of the encoder, so that another version of it is noticed.
    """

    classifier: TransductiveMaxMarginClassifier
    rejection: Rejection
    kind: Kind
    encoder: str = ""
    identity: str = ""

    def label(self, X: ArrayLike) -> Answers:
        """Answers for new rows (n_rows, n_features)."""
        X = stack_embeddings(X, "X")
        expected = self.classifier.n_features_in_
        if X.shape[1] != expected:
            raise ValueError(f"The model was fitted on {expected} features; got {X.shape[1]}. Use the same encoder.")
        return apply_rows(self.classifier, self.rejection, X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file for `load_model`."""
        header = {"format": FORMAT, "kind": self.kind, "encoder": self.encoder, "identity": self.identity}
        with tempfile.TemporaryDirectory() as folder, atomic_path(path) as temporary:
            planes, rule = Path(folder, _CLASSIFIER), Path(folder, _REJECTION)
            self.classifier.save(planes)
            np.savez(rule, mean=self.rejection.mean, centres=self.rejection.centres, threshold=self.rejection.threshold)
            with zipfile.ZipFile(temporary, "w") as archive:
                archive.writestr(_HEADER, json.dumps(header))
                archive.write(planes, _CLASSIFIER)
                archive.write(rule, _REJECTION)


def load_model(path: str | os.PathLike[str]) -> LabelModel:
    """The model `LabelModel.save` wrote to ``path``."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no model at {os.fspath(path)!r}. Make one with `marginshot label --save`.")
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            header = json.loads(archive.read(_HEADER))
            assert_format(header, FORMAT)
            about = [header[name] for name in ("kind", "encoder", "identity")]
            # Only these two names leave the archive: a path inside it cannot reach anywhere else.
            for name in (_CLASSIFIER, _REJECTION):
                Path(folder, name).write_bytes(archive.read(name))
            classifier = TransductiveMaxMarginClassifier.load(Path(folder, _CLASSIFIER))
            with np.load(Path(folder, _REJECTION), allow_pickle=False) as rule:
                rejection = Rejection(rule["mean"], rule["centres"], float(rule["threshold"]))
            return LabelModel(classifier, rejection, *about)
    except _DAMAGES as error:
        reason = f"a part is missing ({error.args[0]})" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{os.fspath(path)!r} is not a model saved by `marginshot label --save`: {reason}") from error
