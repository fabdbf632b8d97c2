"""FS-TMMC's gain over FS-MMC and over LaplacianShot against SimpleShot's accuracy, network by network.

    python benchmarks/gaps.py --measure mini=epoch1.npz --measure mini=epoch2.npz ...   # adds points
    python benchmarks/gaps.py                                                           # redraws the figure

A gap that depends on SimpleShot's accuracy alone, whatever the network, is the features'; one that differs between
networks of equal accuracy is not. Points are kept in gaps.json; a feature file measured again replaces its points. The
paper's points are read from its tables.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSettings
from marginshot.evaluation import Run, evaluate
from marginshot.evaluation.results import MethodResult
from marginshot.evaluation.statistics import paired_difference
from marginshot.methods import get_method
from marginshot.reporting.paper import paper_tables

ROOT = Path(__file__).parents[1]
METHOD, AXIS = "fs-tmmc", "simpleshot"
RIVALS = {"fs-mmc": "FS-MMC", "laplacianshot": "LaplacianShot"}
SHOTS = (1, 5)

# Groups of points: how each is called and drawn.
GROUPS = {
    "paper": ("printed in the paper", "black", "*"),
    "mini": ("ResNet-18 after our short training, miniImageNet", "C0", "o"),
    "mini-cub": ("the same network on CUB", "C0", "s"),
    "cub": ("ResNet-18 trained on CUB (docs/results/cub.md)", "C3", "v"),
    "lite0": ("EfficientNet-lite0 (has seen ImageNet), miniImageNet", "C2", "^"),
    "other": ("other encoders and data", "0.55", "o"),
}


def measure(group: str, path: str, n_tasks: int) -> list[dict[str, Any]]:
    """A point for each number of shots, in per cent; the gaps are means over the tasks, with 95 % intervals."""
    run = Run(
        banks=[load_features(path)],
        methods={name: get_method(name) for name in (METHOD, *RIVALS, AXIS)},
        settings=[TaskSettings(n_way=5, n_shot=shot) for shot in SHOTS],
        n_tasks=n_tasks,
    )
    blocks = evaluate(run, n_jobs=1).blocks()
    return [point_of(group, {result.method: result for result in block}) for block in blocks]


def point_of(group: str, results: dict[str, MethodResult]) -> dict[str, Any]:
    """The point of one number of shots, from the results of all methods on its tasks."""
    ours = results[METHOD]
    point: dict[str, Any] = {"group": group, "features": ours.features, "shot": ours.shot, "tasks": ours.tasks}
    point[AXIS] = round(100 * results[AXIS].accuracy, 2)
    for rival in RIVALS:
        gap, interval = paired_difference(ours.per_task, results[rival].per_task)
        point[rival] = [round(100 * gap, 2), round(100 * interval, 2)]
    return point


def printed() -> list[dict[str, Any]]:
    """The paper's own points: ResNet-18, WRN and DenseNet on each dataset."""
    numbers: dict[tuple[str, str, int], dict[str, float]] = {}
    for table in paper_tables():
        for row in (row for group in table.groups for row in group):
            for (dataset, shot), cell in zip(table.columns, row.cells, strict=True):
                if cell is not None:
                    numbers.setdefault((row.network, dataset, shot), {})[row.method] = cell.accuracy
    points = []
    for (network, dataset, shot), cells in numbers.items():
        if not {"FS-TMMC", "SimpleShot"} <= set(cells):
            continue
        point = {"group": "paper", "features": f"{dataset}, {network}", "shot": shot, AXIS: cells["SimpleShot"]}
        for rival, name in RIVALS.items():
            point[rival] = [cells["FS-TMMC"] - cells[name], 0.0] if name in cells else None
        points.append(point)
    return points


def draw(points: Sequence[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(RIVALS), len(SHOTS), figsize=(9.5, 7.5), sharex="col", layout="constrained")
    for row, (rival, name) in zip(axes, RIVALS.items(), strict=True):
        for axis, shot in zip(row, SHOTS, strict=True):
            for group, (label, colour, marker) in GROUPS.items():
                chosen = [p for p in points if p["group"] == group and p["shot"] == shot and p[rival]]
                if chosen:
                    x, gaps = [p[AXIS] for p in chosen], np.array([p[rival] for p in chosen])
                    axis.errorbar(x, gaps[:, 0], gaps[:, 1], fmt=marker, color=colour, label=label, lw=1)
            axis.axhline(0, color="0.8", lw=1, zorder=0)
            axis.set_ylabel(f"FS-TMMC − {name}, points")
            axis.set_title(f"{shot} shot{'s' * (shot > 1)}")
    for axis in axes[-1]:
        axis.set_xlabel("Accuracy of SimpleShot, %")
    shown = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=110)


def markdown(points: Sequence[dict[str, Any]]) -> str:
    """One line for each feature file: SimpleShot's accuracy and the gaps, at 1 and 5 shots."""
    lines = ["| | SimpleShot, 1 / 5 shots | over FS-MMC | over LaplacianShot |", "|---|---|---|---|"]
    for group in GROUPS:
        for source in dict.fromkeys(p["features"] for p in points if p["group"] == group):
            own = [
                p for shot in SHOTS for p in points if (p["features"], p["shot"], p["group"]) == (source, shot, group)
            ]
            cells = [" / ".join(f"{p[AXIS]:.1f}" for p in own)]
            cells += [" / ".join(gap_text(p[rival]) for p in own) for rival in RIVALS]
            lines.append(f"| {source.removesuffix('.npz')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gap_text(gap: Sequence[float] | None) -> str:
    if gap is None:
        return "–"
    return f"{gap[0]:+.2f}".replace("-", "−") + (f" ± {gap[1]:.2f}" if gap[1] else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="append", default=[], metavar="GROUP=FILE", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--points", type=Path, default=ROOT / "benchmarks" / "gaps.json")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "images" / "gaps.png")
    arguments = parser.parse_args()
    points = json.loads(arguments.points.read_text()) if arguments.points.exists() else []
    for given in arguments.measure:
        group, _, path = given.partition("=")
        if group not in GROUPS or group == "paper" or not path:
            parser.error(f"--measure needs GROUP=FILE with a group of {', '.join(GROUPS)}; got {given!r}.")
        new = measure(group, path, arguments.tasks)
        points = [p for p in points if (p["group"], p["features"]) != (group, new[0]["features"])] + new
        # After each file, so that nothing measured is lost. One point a line.
        lines = ",\n".join(json.dumps(point, ensure_ascii=False) for point in sorted(points, key=order))
        arguments.points.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        print(path, *new, sep="\n", file=sys.stderr, flush=True)
    everything = [*printed(), *sorted(points, key=order)]
    draw(everything, arguments.plot)
    print(markdown(everything))


def order(point: dict[str, Any]) -> tuple[Any, ...]:
    """By group and name, numbers in names by size."""
    parts = re.split(r"(\d+)", point["features"])
    return list(GROUPS).index(point["group"]), [part.zfill(6) for part in parts], point["shot"]


if __name__ == "__main__":
    main()
