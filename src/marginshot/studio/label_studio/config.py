"""The question of a Label Studio project: the single choice in its labelling configuration, and its object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marginshot._lib.xml import read_xml
from marginshot.labelling.items.kind import Kind
from marginshot.labelling.items.kinds import PICTURE, TEXT


@dataclass(frozen=True)
class Question:
    """A single choice about a picture or a text.

    Parameters
    ----------
    name, about : str
        Names of the control and of the object in the configuration.
    field : str
        Key of the content in the data of a task.
    kind : Kind
        Kind of the content.
    classes : mapping of str to str
        Each choice, by its value in results.
    """

    name: str
    about: str
    field: str
    kind: Kind
    classes: Mapping[str, str]

    def result(self, label: str, probability: float) -> list[dict[str, Any]]:
        """A prediction in the form of Label Studio."""
        value = {"choices": [label]}
        answer = {"from_name": self.name, "to_name": self.about, "type": "choices", "value": value}
        return [answer | {"score": probability}]


def read_config(config: str) -> Question:
    """The question in a labelling configuration; raises ValueError unless it asks one single choice."""
    try:
        document = read_xml(config.encode())
    except ValueError as error:
        raise ValueError(f"The labelling configuration cannot be read: {error}.") from error
    controls = document.getElementsByTagName("Choices")
    if len(controls) != 1 or controls[0].getAttribute("choice") == "multiple":
        raise ValueError(
            f"This labels projects with one Choices tag and a single choice; the configuration has {len(controls)}"
            f"{' of several choices' if len(controls) == 1 else ''}."
        )
    about = controls[0].getAttribute("toName")
    tags: dict[str, Kind] = {kind.tag: kind for kind in (PICTURE, TEXT)}
    objects = [(tag, one) for tag in tags for one in document.getElementsByTagName(tag)]
    found = next(((tags[tag], one) for tag, one in objects if one.getAttribute("name") == about), None)
    if found is None:
        raise ValueError(f"Choices are about {about!r}, which is no {' or '.join(sorted(tags))} of the configuration.")
    choices = controls[0].getElementsByTagName("Choice")
    names = [choice.getAttribute("alias") or choice.getAttribute("value") for choice in choices]
    shown = [choice.getAttribute("value") for choice in choices]
    if len(set(names)) < 2:
        raise ValueError("The labelling configuration has fewer than two choices.")
    kind, one = found
    classes = dict(zip(names, shown, strict=True))
    return Question(controls[0].getAttribute("name"), about, one.getAttribute("value").lstrip("$"), kind, classes)
