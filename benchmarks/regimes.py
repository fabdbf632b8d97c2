"""Where the presets are ahead, level and behind: the tables of `marginshot regimes` in Markdown.

    python benchmarks/regimes.py FEATURES.npz ... --out runs/regimes [--plot regimes.png] [options of the command]

Runs `marginshot regimes` with the other words, then prints for each method of --of: in how many cells it is ahead of
the best other method, level and behind, by regime and features, and the cells in which it is behind. ``--plot`` copies
the heat map.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from marginshot.cli.app import main as marginshot
from marginshot.evaluation.regime_table import RegimeTable
from marginshot.reporting.regimes import Place, Standing, counts_table, describe_gaps, find_standings, summarise
from marginshot.reporting.tables import percent


def run(words: Sequence[str]) -> None:
    """Run the command; what it prints goes to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            marginshot(["regimes", *words])
        except SystemExit as end:
            if end.code:
                raise


def behind(standings: Sequence[Standing]) -> Iterator[str]:
    """Lines of a table of the cells in which the method is behind, the furthest first."""
    yield "| features | regime | ways, shots | first | difference |\n|---|---|---|---|---|"
    for each in sorted(standings, key=lambda standing: standing.distance):
        if each.place is Place.BEHIND:
            cell, gap = each.cell, percent(each.distance, each.ci95, signed=True)
            yield f"| `{cell.features}` | {cell.regime} | {cell.way}, {cell.shot} | `{each.best.method}` | {gap} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--of", default="fs-tmmc-auto")
    parser.add_argument("--plot", type=Path)
    known, others = parser.parse_known_args()
    known.out.parent.mkdir(parents=True, exist_ok=True)
    run([*others, "--of", known.of, "--out", str(known.out)])
    table, compared = RegimeTable.load(known.out / "regimes.json"), known.of.split(",")
    for name in compared:
        standings = find_standings(table, name, without=compared)
        print(summarise(standings, name), counts_table(standings, name).render("markdown"), sep="\n\n", end="\n\n")
        if any(standing.place is Place.BEHIND for standing in standings):
            print(f"Cells with `{name}` behind:", "\n".join(behind(standings)), sep="\n\n", end="\n\n")
    print("\n".join(f"- {line}" for line in describe_gaps(table)))
    if known.plot:
        shutil.copy(known.out / "regimes.png", known.plot)


if __name__ == "__main__":
    main()
