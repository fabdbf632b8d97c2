"""A fitted labeller: labels new items, and lives in one file without pickle (planes, rejection, encoder's name)."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from marginshot._lib.files import atomic_path
from marginshot._lib.reading import read_npz, reading
from marginshot._lib.warn import warn_user
from marginshot.classifier.estimator import TransductiveMaxMarginClassifier
from marginshot.classifier.persistence import assert_format
from marginshot.labelling.answers.classify import Answers, apply_rows
from marginshot.labelling.answers.rejection import Rejection
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.embed import Progress, embed, silent
from marginshot.labelling.items.encoders import ItemEncoder, check_own
from marginshot.labelling.items.folders import as_paths, collect_unlabelled
from marginshot.labelling.items.kind import FileKind, Kind
from marginshot.labelling.items.kinds import KINDS
from marginshot.labelling.items.sources import Source, collect_rows, open_unlabelled
from marginshot.labelling.items.store import Store, open_store
from marginshot.labelling.items.tables import embedding_rows, stack_embeddings, text_rows
from marginshot.labelling.outputs.labelling import Labelling
from marginshot.labelling.outputs.model_checks import (
    check_features,
    check_header,
    check_planes,
    make_rejection,
    read_member,
)
from marginshot.labelling.outputs.requests import Request
from marginshot.labelling.outputs.result import PathLike

FORMAT = "marginshot-labeller-2"

_HEADER, _CLASSIFIER, _REJECTION = "about.json", "classifier.npz", "rejection.npz"


@dataclass(frozen=True)
class LabelModel:
    """A fitted model, which labels new items without examples.

    Parameters
    ----------
    classifier : TransductiveMaxMarginClassifier
        The fitted planes.
    rejection : Rejection
        The rule for items of none of the classes.
    kind : Kind
        Kind of the items that it was fitted on.
    encoder : str
        Name of the encoder; empty for embeddings.
    identity : str
        Identity of the encoder, so that another version of it is noticed.
    path : Path, optional
        The file it was loaded from; None where it was fitted here.
    """

    classifier: TransductiveMaxMarginClassifier
    rejection: Rejection
    kind: Kind
    encoder: str = ""
    identity: str = ""
    path: Path | None = field(default=None, compare=False)

    def label(self, X: ArrayLike) -> Answers:
        """Answers for new rows (n_rows, n_features)."""
        X = stack_embeddings(X, "X")
        expected = self.classifier.n_features_in_
        if X.shape[1] != expected:
            raise ValueError(f"The model was fitted on {expected} features; got {X.shape[1]}. Use the same encoder.")
        return apply_rows(self.classifier, self.rejection, X)

    def label_images(
        self,
        folder: PathLike,
        *,
        reject: bool = False,
        leave_out: PathLike | Sequence[PathLike] = (),
        encoder: str | None = None,
        cache: bool | PathLike = True,
    ) -> Labelling:
        """Label the items of a folder, each independently of the others; ``encoder`` as in `make_encoder`.

        Examples
        --------
        >>> load_model("model").label_images("new-photos").write("new-labelled")  # doctest: +SKIP
        """
        chosen, collection = self.make_encoder(encoder), self.collect(folder, leave_out)
        request = self.request(Source(Path(folder)), reject=reject)
        return self.label_collection(collection, chosen, open_store(cache), request, reject=reject)

    def collect(self, folder: PathLike, leave_out: PathLike | Sequence[PathLike] = ()) -> Collection:
        """The items of a folder that are of the model's kind; a model of rows of tables is an error."""
        if not isinstance(self.kind, FileKind):
            raise ValueError(f"The model labels {self.kind.plural}; {os.fspath(folder)} is a folder.")
        return collect_unlabelled(Path(folder), as_paths(leave_out), self.kind)

    def label_table(
        self,
        path: PathLike,
        *,
        text: str | None = None,
        label: str | None = None,
        reject: bool = False,
        encoder: str | None = None,
        cache: bool | PathLike = True,
    ) -> Labelling:
        """Label the rows of a table into a new column ``label``; `Labelling.write` keeps its other columns."""
        chosen, source = self.make_encoder(encoder), open_unlabelled(Path(path), label)
        collection = collect_rows(source.rows(), text, None)
        request = self.request(source, reject=reject)
        return self.label_collection(collection, chosen, open_store(cache), request, reject=reject)

    def label_texts(
        self,
        texts: Sequence[str],
        *,
        reject: bool = False,
        encoder: str | None = None,
        cache: bool | PathLike = True,
    ) -> Labelling:
        """Label texts, each independently of the others."""
        chosen, collection = self.make_encoder(encoder), text_rows(texts, None)
        return self.label_collection(collection, chosen, open_store(cache), reject=reject)

    def label_embeddings(self, X: ArrayLike, *, items: Sequence[str] | None = None, reject: bool = False) -> Labelling:
        """Label embeddings (n_rows, n_features), each independently of the others."""
        return self.label_collection(embedding_rows(stack_embeddings(X, "X"), None, items), None, None, reject=reject)

    def label_collection(
        self,
        collection: Collection,
        encoder: ItemEncoder | None,
        store: Store | None,
        request: Request | None = None,
        *,
        reject: bool = False,
        on_progress: Progress = silent,
    ) -> Labelling:
        """Label a collection; another version of the model's encoder is worth a warning."""
        if collection.kind != self.kind:
            raise ValueError(f"The model labels {self.kind.plural}; got {collection.kind.plural}.")
        if encoder is not None and encoder.identity != self.identity:
            warn_user(
                f"the model was fitted with {self.identity!r}; here is {encoder.identity!r}. Labels may differ; fit "
                "the model again to be sure.",
                RuntimeWarning,
            )
        embedded = embed(replace(collection, labels=("",) * len(collection)), encoder, store, on_progress)
        if not len(embedded.X):
            raise ValueError("None of the items can be read.")
        on_progress("labelling", 0, 0)
        started = time.perf_counter()
        answers = self.label(embedded.X)
        seconds = embedded.seconds | {"labelling": time.perf_counter() - started}
        readable, asked = embedded.collection, request or Request()
        return Labelling(readable, embedded.X, answers, reject, self, asked, embedded.problems, seconds)

    def make_encoder(self, encoder: str | None = None, device: str = "auto") -> ItemEncoder | None:
        """The encoder the model was fitted with; None for embeddings.

        A model from a file names only encoders that come with the extras; any other has to be given as ``encoder``.
        """
        if encoder is None and self.path is not None:
            check_own(self.encoder, self.path)
        return self.kind.encoder(encoder or self.encoder, device)

    def request(self, source: Source, *, reject: bool) -> Request:
        """The request by which this model labels ``source``."""
        settings = {"command": "apply", "reject": reject}
        if self.path is not None:
            return Request(source, {"model": (self.path,)}, settings)
        centres = hashlib.sha256(np.ascontiguousarray(self.rejection.centres).tobytes()).hexdigest()
        return Request(source, {}, {**settings, "model": centres})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file for `load_model`."""
        header = {"format": FORMAT, "kind": self.kind.name, "encoder": self.encoder, "identity": self.identity}
        with tempfile.TemporaryDirectory() as folder, atomic_path(path, private=True) as temporary:
            planes, rule = Path(folder, _CLASSIFIER), Path(folder, _REJECTION)
            self.classifier.save(planes)
            np.savez(rule, **asdict(self.rejection))
            with zipfile.ZipFile(temporary, "w") as archive:
                archive.writestr(_HEADER, json.dumps(header))
                archive.write(planes, _CLASSIFIER)
                archive.write(rule, _REJECTION)


def load_model(path: str | os.PathLike[str]) -> LabelModel:
    """The model `LabelModel.save` wrote to ``path``."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no model at {os.fspath(path)!r}. Make one with `marginshot label --save`.")
    with (
        reading(path, "a model saved by `marginshot label --save`", "Make it again."),
        Path(path).open("rb") as file,
        zipfile.ZipFile(file) as archive,
        tempfile.TemporaryDirectory() as folder,
    ):
        header = json.loads(archive.read(_HEADER))
        assert_format(header, FORMAT)
        check_header(header)
        kind, encoder, identity = (header[name] for name in ("kind", "encoder", "identity"))
        # Only these two names leave the archive: a path inside it cannot reach anywhere else.
        for name in (_CLASSIFIER, _REJECTION):
            Path(folder, name).write_bytes(read_member(archive, name))
        check_planes(Path(folder, _CLASSIFIER))
        classifier = TransductiveMaxMarginClassifier.load(Path(folder, _CLASSIFIER))
        n_features = check_features(classifier.n_features_in_)
        rule = read_npz(Path(folder, _REJECTION), "a rule for foreign items")
        rejection = make_rejection(rule, len(classifier.classes_), n_features)
        model = LabelModel(classifier, rejection, KINDS[kind], encoder, identity, Path(path))
        # Parts that do not fit each other are found out now, not after pictures have been embedded.
        rows = np.random.default_rng(0).normal(size=(4, n_features)).astype(np.float32)
        if not np.isfinite(model.label(np.append(rows, np.ones((1, n_features)), axis=0)).probabilities).all():
            raise ValueError("its probabilities are not finite")
    return model
