"""Recipes: the training, extraction and evaluation for one column of the paper's tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

_TABLES = {"recipe", "train", "stage", "test", "evaluate", "paper"}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One training of a recipe: the name of its run, and its settings."""

    run: str
    train: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One recipe.

    Parameters
    ----------
    name : str
        Name of its file.
    title : str
        Dataset and network, as the table's heading.
    stages : tuple of Stage
        Trainings, each of which starts from the weights of the one before; recipes that share a run train it once.
    train_folder : str
        Folder below the data folder to train on; empty for the data folder itself.
    test : mapping
        ``dataset``, ``split``, ``folder`` below the data folder, and ``without``: names of classes, or of the folders
        above them, that are left out.
    evaluate : mapping
        ``methods``, ``shots``, ``tasks``, ``seed``.
    paper : mapping
        Method -> shots -> accuracy in per cent, as printed.
    rehearsal : str, default=""
        How it differs from the recipe in its file.
    """

    name: str
    title: str
    stages: tuple[Stage, ...]
    train_folder: str
    test: Mapping[str, Any]
    evaluate: Mapping[str, Any]
    paper: Mapping[str, Mapping[int, float]]
    rehearsal: str = ""

    def rehearsed(self, epochs: int | None, *, subset: bool) -> Recipe:
        """The recipe with another number of epochs in each stage, or for incomplete datasets."""
        changes: dict[str, Any] = ({} if epochs is None else {"epochs": epochs}) | ({"subset": True} if subset else {})
        differences = [f"{epochs} epochs"] * (epochs is not None) + ["incomplete data allowed"] * subset
        stages = tuple(replace(stage, train={**stage.train, **changes}) for stage in self.stages)
        return replace(self, stages=stages, rehearsal=", ".join(differences))

    @property
    def final(self) -> Stage:
        """The stage whose network is tested."""
        return self.stages[-1]

    @property
    def needs_two_folders(self) -> bool:
        """Whether it is tested on another dataset than it is trained on."""
        return bool(self.final.train["dataset"] != self.test["dataset"])


def recipe_names() -> list[str]:
    """Names of all recipes."""
    folder = files("marginshot.cli") / "recipes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_recipe(name: str) -> Recipe:
    """The recipe called ``name``."""
    if name not in recipe_names():
        raise ValueError(f"There is no recipe {name!r}; choose one of {', '.join(recipe_names())}.")
    text = (files("marginshot.cli") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    return parse_recipe(name, text)


def parse_recipe(name: str, text: str) -> Recipe:
    """A recipe from the text of its file."""
    content = tomllib.loads(text)
    if set(content) - _TABLES or not {"recipe", "train", "test", "evaluate"} <= set(content):
        raise ValueError(f"Recipe {name} needs the tables recipe, train, test and evaluate; it has {sorted(content)}.")
    train = dict(content["train"])
    train_folder = train.pop("folder", "")
    paper = {
        method: {int(shot): float(accuracy) for shot, accuracy in cells.items()}
        for method, cells in content.get("paper", {}).items()
    }
    return Recipe(
        name=name,
        title=content["recipe"]["title"],
        stages=_stages(content["recipe"].get("run", name), train, content.get("stage", [{}])),
        train_folder=train_folder,
        test=content["test"],
        evaluate=content["evaluate"],
        paper=paper,
    )


def _stages(run: str, common: Mapping[str, Any], changes: list[dict[str, Any]]) -> tuple[Stage, ...]:
    """Stages with the ``common`` settings and their own; the last has the recipe's name, the others a number too."""
    names = [f"{run}-stage{number}" for number in range(1, len(changes))] + [run]
    return tuple(Stage(run=name, train={**common, **own}) for name, own in zip(names, changes, strict=True))
