"""Labelling as functions: pictures in a folder, texts, or embeddings, each with a few known labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from marginshot.labelling.answers.classes import as_classes
from marginshot.labelling.answers.classify import LabelSettings
from marginshot.labelling.items.encoders import PICTURE_ENCODER
from marginshot.labelling.items.folders import as_paths
from marginshot.labelling.items.kinds import PICTURE, TEXT
from marginshot.labelling.items.sounds import SOUND
from marginshot.labelling.items.sources import Source, open_source, with_boxes
from marginshot.labelling.items.store import open_store
from marginshot.labelling.items.tables import embedding_rows, stack_embeddings, text_rows
from marginshot.labelling.outputs.labelling import Labelling
from marginshot.labelling.outputs.outputs import Outputs
from marginshot.labelling.outputs.result import PathLike
from marginshot.labelling.runs.like import open_old
from marginshot.labelling.runs.run import Run
from marginshot.labelling.runs.solve import label_collection


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
    boxes: PathLike | None = None,
    box_confidence: float = 0.2,
    event_gap: float | None = None,
    like: PathLike | None = None,
    out: PathLike | None = None,
    session: bool = True,
    cache: bool | PathLike = True,
) -> Labelling:
    """Label the pictures of a folder from a few examples.

    Parameters
    ----------
    folder : path
        Pictures at any depth.
    examples : path or sequence of paths, optional
        A folder with one sub-folder per class, a table with columns ``path`` and ``label`` or others of that meaning,
        a JSON export of Label Studio, or "xmp" for the keywords of the pictures. Without any, the direct sub-folders of
        ``folder`` are the classes, and the pictures beside them are to be labelled.
    classes : sequence of str, optional
        Names of classes, each with an example, that a CSV file could not hold otherwise, such as ``None`` or ``NA``.
    encoder : str, default="efficientnet-lite0"
        That one, the path of an ``.onnx`` file, a folder or a Hugging Face repository with ``onnx/``, or the name of a
        timm model. With ``like``, the default is that of the earlier run.
    reject : bool, default=False
        Give no label to items far from every class.
    lose : float, default=0.05
        Share of items of the known classes one is willing to lose that way.
    suggest : int, default=0
        Number of items to suggest for labelling by hand.
    leave_out : path or sequence of paths, optional
        Folders inside ``folder`` that are no input, such as the one that `Labelling.write` fills.
    boxes : path, optional
        File of a detector, MegaDetector's or COCO's: what is in its boxes is labelled, not whole pictures.
    box_confidence : float, default=0.2
        Least confidence of a box; a picture without one is empty.
    event_gap : float, optional
        Seconds between pictures of one camera up to which they are one event, and labelled together; 0 for never.
        Without, 60 for boxes and 0 else.
    like : path, optional
        What was labelled before: that folder, if there is a session of it, or the folder that its labels were written
        to. The labels that a person gave there are examples, and ``folder`` needs none. It and the earlier folder are
        two domains, so that another month or camera counts for no class. While no item of ``folder`` has a label of
        its own, the accuracy is expected with a wide interval; `Labelling.suggestions` holds what would narrow it.
    out : path, optional
        Where `Labelling.write` wrote the labels before, and will again: what was corrected there, or filled in among
        the suggestions, is an example, as for ``marginshot label``. Without it, nothing is known of earlier runs.
    session : bool, default=True
        With ``out``, whether labels given by hand are shared with the studio on ``folder``, as by ``marginshot label``:
        those in its session are examples, and `Labelling.write` adds those found in ``out``. If not, they are kept in
        a session beside ``out``. Without ``out``, no session is read or written.
    cache : bool or path, default=True
        Keep embeddings for the next run, in the user's cache folder or the one given.

    Returns
    -------
    Labelling
        With ``to_pandas()``, ``write(folder)``, ``save(path)``, ``write_gallery(path)`` and ``suggestions()``.
    """
    settings, store = LabelSettings(reject=reject, lose=lose, suggest=suggest), open_store(cache)
    source = Source(Path(folder))
    source = source if boxes is None else with_boxes(source, Path(boxes), box_confidence)
    asked = None if encoder == PICTURE_ENCODER else encoder
    old = None if like is None else open_old(Path(like), source, None, event_gap, store, asked)
    run = Run(
        source,
        settings,
        store,
        outputs=None if out is None else Outputs(path=Path(out), pictures=True),
        session=session,
        classes=as_classes(classes),
        encoder=encoder if old is None else old.encoder,
        event_gap=event_gap,
        like=old,
        leave_out=as_paths(leave_out),
        kind=PICTURE,
    )
    return run.again(as_paths(examples))


def label_sounds(
    folder: PathLike,
    examples: PathLike | Sequence[PathLike] = (),
    *,
    classes: Sequence[str] = (),
    encoder: str | None = None,
    reject: bool = False,
    lose: float = 0.05,
    suggest: int = 0,
    leave_out: PathLike | Sequence[PathLike] = (),
    out: PathLike | None = None,
    session: bool = True,
    cache: bool | PathLike = True,
) -> Labelling:
    """Label the sounds of a folder from a few examples; recordings of more than ten seconds are cut into clips.

    Parameters
    ----------
    folder : path
        ``.wav``, ``.flac``, ``.ogg`` and ``.mp3`` files at any depth; needs the extra `sounds`.
    examples, classes, reject, lose, suggest, leave_out, out, session, cache
        As in `label_images`; an example that is a long recording makes all of its clips examples.
    encoder : str, optional
        "log-mel", which needs no weights, the path of an ``.onnx`` file, or a folder or a Hugging Face repository with
        ``onnx/``.
    """
    settings = LabelSettings(reject=reject, lose=lose, suggest=suggest)
    run = Run(
        Source(Path(folder)),
        settings,
        open_store(cache),
        outputs=None if out is None else Outputs(path=Path(out), pictures=True),
        session=session,
        classes=as_classes(classes),
        encoder=encoder,
        leave_out=as_paths(leave_out),
        kind=SOUND,
    )
    return run.again(as_paths(examples))


def label_texts(
    texts: Sequence[str],
    labels: Sequence[Any] | None = None,
    *,
    classes: Sequence[str] | Mapping[str, str | Sequence[str]] = (),
    names: bool = True,
    encoder: str | None = None,
    reject: bool = False,
    lose: float = 0.05,
    suggest: int = 0,
    cache: bool | PathLike = True,
) -> Labelling:
    """Label texts from a few that have labels.

    Texts in memory have no session, and no run knows another: write them to a table, and use `label_table` with
    ``out``, where corrections are to be taken up.

    Parameters
    ----------
    texts : sequence of str
        The texts.
    labels : sequence, optional
        Label of each text; None, NaN, "" or -1 where unknown.
    classes : sequence of str, or mapping of str to str or sequence of str, optional
        Names of classes that may have no example; as a mapping, one or several descriptions of each.
    names : bool, default=True
        Take the names of classes for examples; codes such as ``c17`` are never taken.
    encoder : str, optional
        "minilm" or "multilingual", the path of an ``.onnx`` file with ``tokenizer.json`` beside it, a folder or a
        Hugging Face repository with ``onnx/``, or the name of a sentence-transformers model. Without, "minilm" for
        English and where its weights are installed, else "multilingual".
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
    chosen = TEXT.encoder(encoder, contents=collection.contents)
    return label_collection(collection, chosen, open_store(cache), settings, classes=as_classes(classes))


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
    like: PathLike | None = None,
    out: PathLike | None = None,
    session: bool = True,
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
        As in `label_texts`.
    reject, lose, suggest, out, session, cache
        As in `label_images`.
    like : path, optional
        As in `label_images`: a table, or the one that its labels were written to. Names of classes are then no
        examples.

    Examples
    --------
    >>> result = label_table("tickets.csv", text="body", label="topic")  # doctest: +SKIP
    >>> result.write("tickets-labelled.csv")                             # doctest: +SKIP
    """
    settings, store = LabelSettings(reject=reject, lose=lose, suggest=suggest, names=names), open_store(cache)
    source = open_source(Path(path), label)
    old = None if like is None else open_old(Path(like), source, text, None, store, encoder)
    run = Run(
        source,
        settings,
        store,
        outputs=None if out is None else Outputs(path=Path(out), pictures=False),
        session=session,
        text=text,
        classes=as_classes(classes),
        encoder=encoder if old is None else old.encoder,
        like=old,
    )
    return run.again(())
