"""Labelling as functions: pictures in a folder, texts, or embeddings, each with a few known labels."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from marginshot.labelling.classify import LabelSettings, label_rows
from marginshot.labelling.collection import Collection, check_classes, encode_given
from marginshot.labelling.embed import Embedded, Progress, embed, printable
from marginshot.labelling.encoders import PICTURE_ENCODER, TEXT_ENCODER, ItemEncoder, PictureEncoder, TextEncoder
from marginshot.labelling.folders import collect_pictures
from marginshot.labelling.labelling import Labelling
from marginshot.labelling.model import LabelModel
from marginshot.labelling.store import Store, default_folder
from marginshot.labelling.tables import as_text, read_labels, row_names, stack_embeddings

PathLike = str | os.PathLike[str]


def label_images(
    folder: PathLike,
    examples: PathLike | Sequence[PathLike] = (),
    *,
    encoder: str = PICTURE_ENCODER,
    reject: bool = False,
    lose: float = 0.05,
    suggest: int = 0,
    cache: bool | PathLike = True,
) -> Labelling:
    """Label the pictures of a folder from a few examples.

    Parameters
    ----------
    folder : path
        Pictures at any depth.
    examples : path or sequence of paths, optional
        A folder with one sub-folder per class, or a CSV file with columns ``path`` and ``label``. Without any, the
        direct sub-folders of ``folder`` are the classes, and the pictures beside them are to be labelled.
    encoder : str, default="efficientnet-lite0"
        That one, or the name of a timm model.
    reject : bool, default=False
        Give no label to items far from every class.
    lose : float, default=0.05
        Share of items of the known classes one is willing to lose that way.
    suggest : int, default=0
        Number of items to suggest for labelling by hand.
    cache : bool or path, default=True
        Keep embeddings for the next run, in the user's cache folder or the one given.

    Returns
    -------
    Labelling
        With ``to_pandas()``, ``save(path)``, ``write_gallery(path)`` and ``suggestions()``.
    """
    paths = [Path(examples)] if isinstance(examples, str | os.PathLike) else [Path(path) for path in examples]
    collection = collect_pictures(Path(folder), paths)
    settings = LabelSettings(reject=reject, lose=lose, suggest=suggest)
    return label_collection(collection, PictureEncoder(encoder), open_store(cache), settings)


def label_texts(
    texts: Sequence[str],
    labels: Sequence[Any],
    *,
    encoder: str = TEXT_ENCODER,
    reject: bool = False,
    lose: float = 0.05,
    suggest: int = 0,
    cache: bool | PathLike = True,
) -> Labelling:
    """Label texts from a few that have labels.

    Parameters
    ----------
    texts : sequence of str
        The texts.
    labels : sequence
        Label of each text; None, NaN, "" or -1 where unknown.
    encoder : str, default="minilm"
        That one, or the name of a sentence-transformers model.
    reject, lose, suggest, cache
        As in `label_images`.

    Examples
    --------
    >>> result = label_texts(["late train", "bus delay", "sweet cake"], ["travel", "", "food"])  # doctest: +SKIP
    >>> result.to_pandas()                                                                       # doctest: +SKIP
    """
    if len(texts) != len(labels):
        raise ValueError(f"texts and labels need equal lengths; got {len(texts)} and {len(labels)}.")
    names = row_names(len(texts))
    listed = np.ones(len(names), dtype=bool)
    collection = Collection("text", names, [as_text(text) for text in texts], read_labels(list(labels)), listed)
    settings = LabelSettings(reject=reject, lose=lose, suggest=suggest)
    return label_collection(collection, TextEncoder(encoder), open_store(cache), settings)


def label_embeddings(
    X: ArrayLike,
    labels: Sequence[Any],
    *,
    items: Sequence[str] | None = None,
    reject: bool = False,
    lose: float = 0.05,
    suggest: int = 0,
) -> Labelling:
    """Label embeddings from a few that have labels.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Embeddings of labelled and unlabelled items together.
    labels : sequence of length n_rows
        Label of each row; None, NaN, "" or -1 where unknown.
    items : sequence of str, optional
        Name of each row.
    reject, lose, suggest
        As in `label_images`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> labels = [""] * 150
    >>> for row in (0, 50, 100): labels[row] = str(iris.target_names[iris.target[row]])
    >>> result = label_embeddings(iris.data, labels)
    >>> [int(count) for count in result.counts().values()]  # doctest: +SKIP
    """
    rows = stack_embeddings(X, "X")
    if len(rows) != len(labels):
        raise ValueError(f"X and labels need equal lengths; got {len(rows)} and {len(labels)}.")
    if items is not None and len(items) != len(rows):
        raise ValueError(f"X and items need equal lengths; got {len(rows)} and {len(items)}.")
    names = row_names(len(rows)) if items is None else tuple(str(item) for item in items)
    listed = np.ones(len(rows), dtype=bool)
    collection = Collection("embedding", names, rows, read_labels(list(labels)), listed)
    return label_collection(collection, None, None, LabelSettings(reject=reject, lose=lose, suggest=suggest))


def label_collection(
    collection: Collection,
    encoder: ItemEncoder | None,
    store: Store | None,
    settings: LabelSettings,
    on_progress: Progress | None = None,
) -> Labelling:
    """Label a collection; embeddings need no encoder."""
    wanted = check_classes((label for label in collection.labels if label), "Labels")
    embedded = _embed(collection, encoder, store, on_progress)
    readable, problems = embedded.collection, embedded.problems
    for name in wanted:
        if name not in readable.labels:
            broken = printable(collection.items[collection.labels.index(name)])
            raise ValueError(
                f"The class {name!r} has no examples left: {broken} {problems[broken]}. Replace it or remove the class."
            )
    if all(readable.labels):
        unread = next(iter(problems), None)
        reason = "every item has a label" if unread is None else f"{unread} {problems[unread]}"
        raise ValueError(f"There is nothing to label: {reason}.")
    started = time.perf_counter()
    given = encode_given(readable.labels, wanted)
    answers, classifier, rejection = label_rows(embedded.X, given, wanted, settings)
    seconds = embedded.seconds | {"labelling": time.perf_counter() - started}
    name, identity = ("", "") if encoder is None else (encoder.name, encoder.identity)
    model = LabelModel(classifier, rejection, collection.kind, name, identity)
    return Labelling(readable, embedded.X, answers, settings.reject, model, problems, seconds)


def apply_model(
    model: LabelModel,
    collection: Collection,
    encoder: ItemEncoder | None,
    store: Store | None,
    *,
    reject: bool = False,
    on_progress: Progress | None = None,
) -> Labelling:
    """Label new items by a saved model; each item by itself, whatever the others are."""
    if collection.kind != model.kind:
        raise ValueError(f"The model labels {model.kind}s; got {collection.kind}s.")
    embedded = _embed(replace(collection, labels=("",) * len(collection)), encoder, store, on_progress)
    if not len(embedded.X):
        raise ValueError("None of the items can be read.")
    started = time.perf_counter()
    answers = model.label(embedded.X)
    seconds = embedded.seconds | {"labelling": time.perf_counter() - started}
    return Labelling(embedded.collection, embedded.X, answers, reject, model, embedded.problems, seconds)


def open_store(cache: bool | PathLike) -> Store | None:
    """The cache in the user's folder, in the one given, or none."""
    if isinstance(cache, bool):
        return Store(default_folder()) if cache else None
    return Store(Path(cache))


def _embed(
    collection: Collection, encoder: ItemEncoder | None, store: Store | None, on_progress: Progress | None
) -> Embedded:
    if encoder is None:
        return Embedded(collection, np.asarray(collection.contents, dtype=np.float32))
    return embed(collection, encoder, store, on_progress)
