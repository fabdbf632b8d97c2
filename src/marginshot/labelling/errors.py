"""Refusals whose sentences name options, in the spelling of Python or of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Option(StrEnum):
    """What a user may have to give, change or leave out."""

    PATH = "path"
    FORCE = "force"
    MODEL = "model"
    EXPORTS = "exports"
    TRANSFER = "transfer"
    COPY = "copy"
    MOVE = "move"
    LINK = "link"
    EXAMPLES = "examples"
    TEXT = "text"
    LABEL = "label"
    CLASSES = "classes"
    BOXES = "boxes"
    DEPLOYMENTS = "deployments"
    GAP = "event_gap"
    LIKE = "like"
    ENCODER = "encoder"
    CACHE = "cache"
    NO_CACHE = "no_cache"


#: Options whose spelling in Python is not their name.
IN_PYTHON: Mapping[Option, str] = {
    Option.FORCE: "force=True",
    Option.COPY: 'transfer="copy"',
    Option.MOVE: 'transfer="move"',
    Option.LINK: 'transfer="link"',
    Option.NO_CACHE: "cache=False",
}


class RefusedError(ValueError):
    """A request cannot be carried out, or only with an option that permits it; nothing was changed.

    Parameters
    ----------
    sentence : str
        What is wrong and what to do, with the names of ``values`` in braces.
    at_fault : Option, optional
        The option whose value is not valid.
    **values : object
        Values for the names in braces; an `Option` is spelled as the reader knows it.

    Examples
    --------
    >>> error = RefusedError("{path} exists. Use {force} to replace it.", path="labels.csv", force=Option.FORCE)
    >>> str(error)
    'labels.csv exists. Use force=True to replace it.'
    >>> error.spell({Option.FORCE: "--force"})
    'labels.csv exists. Use --force to replace it.'
    """

    def __init__(self, sentence: str, *, at_fault: Option | None = None, **values: object) -> None:
        self.sentence = sentence
        self.at_fault = at_fault
        self.values = values
        told = self.spell(IN_PYTHON)
        super().__init__(told if at_fault is None else f"{IN_PYTHON.get(at_fault, at_fault.value)}: {told}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.sentence, self.at_fault, self.values)

    def spell(self, names: Mapping[Option, str]) -> str:
        """The sentence with options under these ``names``; an option that is not among them keeps its own name."""
        if not self.values:
            return self.sentence
        words = {
            key: names.get(value, value.value) if isinstance(value, Option) else value
            for key, value in self.values.items()
        }
        return self.sentence.format(**words)


def _rebuild(kind: type[RefusedError], sentence: str, at_fault: Option | None, values: dict[str, object]) -> Any:
    """A refusal as it was before it was pickled, on its way between processes."""
    return kind(sentence, at_fault=at_fault, **values)


class OutputExistsError(RefusedError, FileExistsError):
    """A file is where an output goes, and marginshot did not write it, or it was changed since."""


class MissingInputError(RefusedError, FileNotFoundError):
    """An input is not there."""


class ChangedMeanwhileError(ValueError):
    """Another page or process has changed the labels since the user saw them; nothing was written."""
