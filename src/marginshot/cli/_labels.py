"""Parts that `label` and `apply` share: options that go together, and the summary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from marginshot._lib.names import counted
from marginshot.cli._errors import INTERRUPTED
from marginshot.cli._output import clean, emit, emit_grid, phases, say

if TYPE_CHECKING:
    from marginshot.labelling.items.store import Store
    from marginshot.labelling.outputs.labelling import Labelling
    from marginshot.labelling.outputs.outputs import Outputs
    from marginshot.labelling.outputs.placed import Placed
    from marginshot.labelling.outputs.records import Record
    from marginshot.labelling.outputs.requests import Action, Request
    from marginshot.labelling.runs.corrections import Said


#: Pictures that a dry run lists unless asked for all.
PREVIEW_LINES = 10
#: Labels that look wrong and are named.
DOUBTS_SHOWN = 5
_DOUBT = ("item", "label", "other", "probability")  # keys of such a label in JSON


@dataclass(frozen=True)
class Show:
    """How the summary is printed."""

    as_json: bool = False
    verbose: bool = False
    quiet: bool = False


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the command with a message about what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        say("Interrupted. Finished embeddings and files are kept; run the same command again to go on.")
        raise typer.Exit(INTERRUPTED) from None


def open_cache(folder: Path | None, megabytes: int, *, use: bool) -> Store | None:
    """The cache the options ask for."""
    from marginshot.labelling.items.store import open_store

    return open_store(folder or True if use else False, megabytes * 1_000_000)


def chosen_action(*, copy: bool, move: bool, link: bool) -> Action | None:
    """The one of ``--copy``, ``--move`` and ``--link`` that was given, or None."""
    chosen: list[Action] = []
    chosen += ["copy"] if copy else []
    chosen += ["move"] if move else []
    chosen += ["link"] if link else []
    if len(chosen) > 1:
        raise typer.BadParameter(f"choose one of --{' and --'.join(chosen)}.")
    return chosen[0] if chosen else None


def remembered(context: typer.Context, names: Iterable[str], said: Said) -> dict[str, Any]:
    """Options to keep for the next run into the same place; prints those recalled from the last run, and notes."""
    from marginshot.labelling.answers.classes import is_table_of_classes
    from marginshot.labelling.items.xmp import is_keywords

    usual = {parameter.name: parameter.default for parameter in context.command.params}
    values = {name: context.params[name] for name in names}
    recalled = [name for name in names if is_recalled(context, name) and values[name] not in (usual[name], None, [])]
    if recalled:
        say(f"As in the last run: {' '.join(_spelled(name, values[name]) for name in recalled)}")
    for note in said.notes:
        say(note)
    plain = {name: list(map(str, value)) if isinstance(value, list) else value for name, value in values.items()}
    examples = [str(path if is_keywords(path) else path.absolute()) for path in said.examples]
    absolute: dict[str, Any] = {"examples": examples}
    for name in ("boxes", "deployments", "like"):
        if values.get(name) is not None:
            absolute[name] = str(Path(values[name]).absolute())
    if is_table_of_classes(values.get("classes") or ""):
        absolute["classes"] = str(Path(values["classes"]).absolute())
    return plain | absolute


def is_recalled(context: typer.Context, name: str) -> bool:
    """Whether the value of an option is that of the last run into the same place."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"


def _spelled(name: str, value: Any) -> str:
    """An option as it is given on the command line."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return " ".join(f"--{name.replace('_', '-')} {one}" for one in (value if isinstance(value, list) else [value]))


def resume(outputs: Outputs, request: Request) -> bool:
    """Complete an unfinished earlier run of the same command; returns whether there was one."""
    if not outputs.unfinished:
        return False
    clean_outputs(outputs)
    with phases("files") as on_progress:
        placed = outputs.resume(request, on_progress)
    if placed is None:
        return False
    if not placed.conflicts and not placed.vanished:
        say(f"An earlier run left {outputs.path} half filled; that is complete now. Nothing was labelled again.")
    _report_pictures(placed)
    return True


def clean_outputs(outputs: Outputs) -> None:
    """Remove the temporary files that killed runs left beside the outputs."""
    clean({file.parent for file in outputs.files})


def finish(
    labelling: Labelling, outputs: Outputs, store: Store | None, show: Show, record: Record | None = None
) -> None:
    """Write the outputs, print a summary with the changes since ``record``, then copy, move or link pictures."""
    clean_outputs(outputs)
    with phases("files") as on_progress:
        outputs.write_files(labelling, store, on_progress)
    _report(labelling, outputs, show, record)
    if outputs.transfer is None:
        return
    with phases("files") as on_progress:
        placed = outputs.place_pictures(labelling, on_progress)
    if placed is not None:
        _report_pictures(placed)


def preview(labelling: Labelling, outputs: Outputs, show: Show) -> None:
    """Print what would be done, and do nothing."""
    _report_left_out(labelling)
    plan = list(outputs.plan(labelling).values())
    if show.as_json:
        transfers = [[str(item.source), str(item.target)] for item in plan]
        emit(json.dumps({**_numbers(labelling), "transfers": transfers}, indent=1))
        return
    _emit_classes(labelling, show)
    shown = plan if show.verbose else plan[:PREVIEW_LINES]
    for item in shown:
        emit(f"{outputs.transfer} {_in_a_line(item.source)} -> {_in_a_line(item.target)}")
    if len(shown) < len(plan):
        say(f"… and {len(plan) - len(shown):,} more; --verbose lists all.")
    outdated = outputs.outdated(labelling)
    for path in outdated if show.verbose else ():
        emit(f"remove {_in_a_line(path)}")
    fate = f" {counted(len(plan), 'picture', 'pictures')} would go into class folders." if outputs.transfer else ""
    if outdated:
        copies = counted(len(outdated), "earlier copy", "earlier copies")
        fate += f" {copies} would be removed from other class folders."
    say(f"Dry run:{fate} Nothing was written.")


def _in_a_line(path: Path | str) -> str:
    return str(path).replace("\n", "\\n").replace("\r", "\\r")


def _report_pictures(placed: Placed) -> None:
    for sentence in placed.about_others:
        say(sentence)
    past = {"copy": "Copied", "move": "Moved", "link": "Linked"}[placed.action]
    say(f"{past} {counted(placed.n_done, 'picture', 'pictures')} into class folders.")
    placed.check_complete()


def _report(labelling: Labelling, outputs: Outputs, show: Show, record: Record | None) -> None:
    """The summary: items per class to stdout, everything else to stderr."""
    _report_left_out(labelling)
    n_changed = None if record is None else record.n_changed(outputs.table)
    if show.as_json:
        content = {
            **_numbers(labelling),
            "changed": n_changed,
            "seconds": {name: round(value, 3) for name, value in labelling.seconds.items()},
            "files": [str(path) for path in outputs.files],
        }
        emit(json.dumps(content, indent=1))
        return
    _emit_classes(labelling, show)
    _say_what_to_check(labelling)
    _say_what_is_foreign(labelling)
    _say_what_is_unlike(labelling, outputs)
    _say_what_looks_wrong(labelling)
    if n_changed is not None:
        say(f"{counted(n_changed, 'label', 'labels')} changed since the last run.")
    _report_files(labelling, outputs)


def _numbers(labelling: Labelling) -> dict[str, Any]:
    """The summary as JSON types, for other programs."""
    expected = labelling.expected_accuracy()
    of_new = {}
    if labelling.collection.old is not None:
        asked = [labelling.collection.items[row] for row in labelling.answers.suggested]
        of_new = {"own_labels": labelling.n_own_labels, "label_next": asked}
    return {
        "counts": labelling.counts(),
        "to_check": labelling.counts_to_check(),
        "expected_accuracy": None if expected is None else asdict(expected),
        "none_of_the_classes": labelling.n_foreign,
        "unlike_examples": labelling.n_unlike,
        **of_new,
        "labels_in_doubt": [dict(zip(_DOUBT, doubt, strict=True)) for doubt in labelling.doubts],
        "left_out": labelling.problems,
        "not_read": dict(labelling.collection.not_read),
        "notes": list(labelling.collection.notes),
    }


def _say_what_to_check(labelling: Labelling) -> None:
    from marginshot.labelling.outputs.result import CHECK, TARGET

    expected, n_to_check = labelling.expected_accuracy(), int(labelling.to_check.sum())
    if expected is None:
        say("No item was given a label.")
        return
    say(f"About {expected.value:.0%} of the labels should be right ({expected.low:.0%} to {expected.high:.0%}).")
    if n_to_check:
        say(f"To be {TARGET:.0%} right, check the {n_to_check:,} marked {CHECK!r} in the column review.")


def _say_what_is_foreign(labelling: Labelling) -> None:
    from marginshot.labelling.outputs.result import CHECK

    n_foreign, n_to_check = labelling.n_foreign, labelling.n_foreign_to_check
    alike = f"{counted(n_foreign, 'looks', 'look')} like none of the classes"
    if labelling.rejected:
        say(f"{alike} and {'was' if n_foreign == 1 else 'were'} given no label.")
    elif n_to_check:
        say(f"{alike}: {n_foreign - n_to_check:,} marked so in the column review, {n_to_check:,} marked {CHECK!r}.")
    else:
        say(f"{alike} and {'is' if n_foreign == 1 else 'are'} marked so in the column review.")
    if labelling.may_lack_classes and not labelling.rejected:
        say("So many that a class may be missing: name it, and give an example. Most of them count as wrong.")


def _say_what_is_unlike(labelling: Labelling, outputs: Outputs) -> None:
    if labelling.collection.old is not None:
        from marginshot.labelling.answers.classify import UNLIKE

        n_new, looks = len(labelling.rows), counted(labelling.n_unlike, "looks", "look")
        say(f"Of {n_new:,} new items {looks} unlike the old ones; of as many old ones {UNLIKE * n_new:,.0f} would.")
        if not labelling.n_own_labels:
            asked = len(labelling.answers.suggested)
            say(
                "The expected accuracy rests on labels of the old items alone. To know better, label or check "
                f"these {asked:,} of the new items and run again: {outputs.beside('suggestions.csv')}"
            )
    elif labelling.n_unlike:
        unlike = counted(labelling.n_unlike, "item looks", "items look")
        say(
            f"{unlike} unlike all your examples, as {labelling.collection.kind.other_source}: the accuracy "
            "of their labels is unknown. Give some examples of them."
        )


def _say_what_looks_wrong(labelling: Labelling) -> None:
    doubts = labelling.doubts
    if not doubts:
        return
    shown = [
        f"{_in_a_line(item)} is labelled {label!r}, the others make it {other!r} ({probability:.0%})"
        for item, label, other, probability in doubts[:DOUBTS_SHOWN]
    ]
    more = f"; and {len(doubts) - len(shown):,} more" if len(doubts) > len(shown) else ""
    say(f"{counted(len(doubts), 'label looks', 'labels look')} wrong: {'; '.join(shown)}{more}.")


def _report_left_out(labelling: Labelling) -> None:
    from marginshot.labelling.items.kinds import describe_unread

    for note in labelling.collection.notes:
        say(note)
    if labelling.collection.not_read:
        say(f"Not read: {describe_unread(labelling.collection.not_read)}.")
    for item, reason in list(labelling.problems.items())[:10]:
        say(f"Left out {item}: {reason}.")
    if len(labelling.problems) > 10:
        say(f"Left out {len(labelling.problems) - 10:,} more that cannot be read.")


def _emit_classes(labelling: Labelling, show: Show) -> None:
    if show.quiet:
        return
    from marginshot.labelling.outputs.summary import Line, summarize
    from marginshot.reporting.grid import Cell, Grid

    def cells(line: Line) -> tuple[Cell, ...]:
        return Cell(line.name), Cell(f"{line.n_items:,}"), Cell(f"{line.n_to_check:,}")

    summary = summarize(labelling, whole=show.verbose)
    others = () if summary.others is None else ((cells(summary.others),),)
    sections = (tuple(map(cells, summary.classes)), *others, tuple(map(cells, summary.totals)))
    emit_grid(Grid(headers=("Class", "Items", "To check"), sections=sections, n_text=1))
    if summary.others is not None:
        say(f"These are the largest and the most doubtful of {len(labelling.classes):,} classes; --verbose shows all.")


def _report_files(labelling: Labelling, outputs: Outputs) -> None:
    say(f"Labels: {outputs.table}")
    if n_kept := outputs.n_kept:
        say(f"It keeps {counted(n_kept, 'row of a picture that was', 'rows of pictures that were')} moved before.")
    if outputs.gallery:
        say(f"Gallery: {outputs.beside('gallery.html')}")
    if outputs.suggestions:
        say(f"Label these next: {outputs.beside('suggestions.csv')}")
    for tool, export in zip(outputs.exports, outputs.formats, strict=True):
        say(f"Open in {tool}: {export.opened(export.paths(outputs.folder, outputs.prefix)[0], labelling)}")
