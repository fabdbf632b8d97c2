"""From a collection to its labelling: embedded, answered, and with a model for new items."""

from __future__ import annotations

import time
from dataclasses import replace
from types import MappingProxyType

from marginshot.labelling.answers.classes import Classes, check_named
from marginshot.labelling.answers.classify import LabelSettings, NamedRows, label_named_rows
from marginshot.labelling.answers.names import embed_names
from marginshot.labelling.items.collection import Collection, check_classes, encode_given
from marginshot.labelling.items.embed import Progress, embed, printable, silent
from marginshot.labelling.items.encoders import ItemEncoder
from marginshot.labelling.items.lights import describe_lights, find_lights
from marginshot.labelling.items.store import Store
from marginshot.labelling.outputs.labelling import Labelling
from marginshot.labelling.outputs.model import LabelModel
from marginshot.labelling.outputs.requests import Request


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
    if all(label for label, own in zip(readable.labels, readable.listed, strict=True) if own):
        readable = replace(readable, notes=(*readable.notes, "Every item has a label, so no answer was needed."))
    lights = find_lights(readable, store, on_progress)
    if lights is not None:
        readable = replace(readable, notes=(*readable.notes, describe_lights(lights)))
    on_progress("labelling", 0, 0)
    started = time.perf_counter()
    given = encode_given(readable.labels, wanted)
    descriptions = [classes.get(name, ()) for name in wanted]
    names = embed_names(wanted, encoder, store, descriptions) if settings.names else None
    table = NamedRows(embedded.X, names, readable.events, lights, readable.old)
    answers, classifier, rejection = label_named_rows(table, given, wanted, settings)
    seconds = embedded.seconds | {"labelling": time.perf_counter() - started}
    name, identity = ("", "") if encoder is None else (encoder.name, encoder.identity)
    model = LabelModel(classifier, rejection, collection.kind, name, identity)
    return Labelling(readable, embedded.X, answers, settings.reject, model, request or Request(), problems, seconds)
