"""Labelling as functions: pictures in a folder, texts, or embeddings, each with a few known labels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numpy.typing import ArrayLike

from marginshot.labelling.classes import Classes, as_classes, check_named
from marginshot.labelling.classify import LabelSettings, label_rows
from marginshot.labelling.collection import Collection, check_classes, encode_given
from marginshot.labelling.embed import Progress, embed, printable, silent
from marginshot.labelling.encoders import (
    PICTURE_ENCODER,
    TEXT_ENCODER,
    ItemEncoder,
    PictureEncoder,
    TextEncoder,
    make_encoder,
)
from marginshot.labelling.folders import as_paths, collect_pictures
from marginshot.labelling.labelling import Labelling, PathLike
from marginshot.labelling.model import LabelModel
from marginshot.labelling.names import embed_names
from marginshot.labelling.requests import Request
from marginshot.labelling.sources import Source, collect_rows, open_source
from marginshot.labelling.store import Store, open_store
from marginshot.labelling.tables import embedding_rows, stack_embeddings, text_rows


def label_images(
    folder: PathLike,
    examples: PathLike | Sequence[PathLike] = (),
    *,
    classes: Sequence[str] = (),
    encoder: str = PICTURE_ENCODER,
    reject: bool = False,
    lose: float = 0.05,
    suggest: int = 0,
    leave_out: PathLike | Sequence[PathLike] = (),
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
    classes : sequence of str, optional
        Names of classes, each with an example, that a CSV file could not hold otherwise, such as ``None`` or ``NA``.
    encoder : str, default="efficientnet-lite0"
        That one, or the name of a timm model.
    reject : bool, default=False
        Give no label to items far from every class.
    lose : float, default=0.05
        Share of items of the known classes one is willing to lose that way.
    suggest : int, default=0
        Number of items to suggest for labelling by hand.
    leave_out : path or sequence of paths, optional
        Folders inside ``folder`` that are no input, such as the one that `Labelling.write` fills.
    cache : bool or path, default=True
        Keep embeddings for the next run, in the user's cache folder or the one given.

    Returns
    -------
    Labelling
        With ``to_pandas()``, ``write(folder)``, ``save(path)``, ``write_gallery(path)`` and ``suggestions()``.
    """
    settings = LabelSettings(reject=reject, lose=lose, suggest=suggest)
    request = label_request(Source(Path(folder)), as_paths(examples), encoder, settings)
    named = as_classes(classes)
    collection = collect_pictures(Path(folder), as_paths(examples), as_paths(leave_out), classes=named)
    return label_collection(collection, PictureEncoder(encoder), open_store(cache), settings, request, classes=named)


def label_texts(
    texts: Sequence[str],
    labels: Sequence[Any] | None = None,
    *,
    classes: Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    names: bool = True,
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
    labels : sequence, optional
        Label of each text; None, NaN, "" or -1 where unknown.
    classes : sequence of str, or mapping of str to str or sequence of str, optional
        Names of classes that may have no example; as a mapping, one or several descriptions of each.
    names : bool, default=True
        Take the names of classes for examples; those that say nothing, such as ``c17``, never are.
    encoder : str, default="minilm"
        That one, or the name of a sentence-transformers model.
    reject, lose, suggest, cache
        As in `label_images`.

    Examples
    --------
    >>> result = label_texts(["late train", "bus delay", "sweet cake"], ["travel", "", "food"])  # doctest: +SKIP
    >>> result.to_pandas()                                                                       # doctest: +SKIP
    >>> label_texts(["late train", "bus delay", "sweet cake"], classes=["travel", "food"])       # doctest: +SKIP
    """
    if labels is not None and len(texts) != len(labels):
        raise ValueError(f"texts and labels need equal lengths; got {len(texts)} and {len(labels)}.")
    settings = LabelSettings(reject=reject, lose=lose, suggest=suggest, names=names)
    collection = text_rows(texts, labels, as_classes(classes))
    return label_collection(collection, TextEncoder(encoder), open_store(cache), settings, classes=as_classes(classes))


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
    settings = LabelSettings(reject=reject, lose=lose, suggest=suggest)
    return label_collection(embedding_rows(rows, labels, items), None, None, settings)


def label_table(
    path: PathLike,
    *,
    text: str | None = None,
    label: str | None = None,
    classes: Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    names: bool = True,
    encoder: str | None = None,
    reject: bool = False,
    lose: float = 0.05,
    suggest: int = 0,
    cache: bool | PathLike = True,
) -> Labelling:
    """Label the rows of a table from the few that have a label; `Labelling.write` keeps its other columns.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv``, ``.parquet`` or ``.npz``.
    text : str, optional
        Column of texts. Without, the column ``embedding`` (``X`` in ``.npz``) holds embeddings.
    label : str, optional
        Half-empty column of labels, "label" (``y`` in ``.npz``) unless named. With ``classes`` it need not be there.
    classes, names
        As in `label_texts`.
    encoder : str, optional
        Name of a sentence-transformers model; without, "minilm".
    reject, lose, suggest, cache
        As in `label_images`.

    Examples
    --------
    >>> result = label_table("tickets.csv", text="body", label="topic")  # doctest: +SKIP
    >>> result.write("tickets-labelled.csv")                             # doctest: +SKIP
    """
    settings = LabelSettings(reject=reject, lose=lose, suggest=suggest, names=names)
    source, named = open_source(Path(path), label), as_classes(classes)
    collection = collect_rows(source.rows(), text, source.column_of_labels(needed=not named), named)
    chosen = make_encoder(collection.kind, encoder)
    request = label_request(source, (), encoder, settings)
    return label_collection(collection, chosen, open_store(cache), settings, request, classes=named)


def label_request(
    source: Source,
    examples: Sequence[Path],
    encoder: str | None,
    settings: LabelSettings,
    said: Mapping[str, str] | None = None,
    said_of: Mapping[str, str] = MappingProxyType({}),
    options: Mapping[str, Any] | None = None,
) -> Request:
    """The request to label ``source`` from ``examples`` and the labels ``said`` in tables that a run wrote."""
    named = {"command": "label", "encoder": encoder or PICTURE_ENCODER}  # compared for pictures only
    return Request(source, {"examples": tuple(examples)}, {**named, **asdict(settings)}, said, said_of, options)


def label_collection(
    collection: Collection,
    encoder: ItemEncoder | None,
    store: Store | None,
    settings: LabelSettings,
    request: Request | None = None,
    on_progress: Progress = silent,
    classes: Classes = MappingProxyType({}),
) -> Labelling:
    """Label a collection; embeddings need no encoder. Some ``classes`` may have a name and no example."""
    check_named(classes, collection.labels, encoder if settings.names else None)
    wanted = check_classes((*filter(None, collection.labels), *classes), "Labels")
    embedded = embed(collection, encoder, store, on_progress)
    readable, problems = embedded.collection, embedded.problems
    for name in wanted:
        if name not in readable.labels and name in collection.labels:
            broken = printable(collection.items[collection.labels.index(name)])
            raise ValueError(
                f"The class {name!r} has no examples left: {broken} {problems[broken]}. Replace it or remove the class."
            )
    if all(readable.labels):
        unread = next(iter(problems), None)
        reason = "every item has a label" if unread is None else f"{unread} {problems[unread]}"
        raise ValueError(f"There is nothing to label: {reason}.")
    on_progress("labelling", 0, 0)
    started = time.perf_counter()
    given = encode_given(readable.labels, wanted)
    descriptions = [classes.get(name, ()) for name in wanted]
    names = embed_names(wanted, encoder, store, descriptions) if settings.names else None
    answers, classifier, rejection = label_rows(embedded.X, given, wanted, settings, names)
    seconds = embedded.seconds | {"labelling": time.perf_counter() - started}
    name, identity = ("", "") if encoder is None else (encoder.name, encoder.identity)
    model = LabelModel(classifier, rejection, collection.kind, name, identity)
    return Labelling(readable, embedded.X, answers, settings.reject, model, request or Request(), problems, seconds)
