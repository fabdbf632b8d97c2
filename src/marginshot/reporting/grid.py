"""A table of text, and the forms it can be printed in."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from marginshot._lib.names import safe_cell

TEXT_FORMATS = ("markdown", "latex", "csv")

_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "−": "$-$",
    "Δ": r"$\Delta$",
    "λ": r"$\lambda$",
    "–": "--",
}


@dataclass(frozen=True)
class Cell:
    """Text of a table; the best number of a column is set in bold."""

    text: str
    bold: bool = False


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table.

    Parameters
    ----------
    headers : tuple of str
    sections : tuple of tuples of rows
        Rows that belong together; a row has one `Cell` per header.
    n_text : int
        Leading columns that hold words; the others hold numbers and are aligned to the right.
    title : str
    """

    headers: tuple[str, ...]
    sections: tuple[tuple[tuple[Cell, ...], ...], ...]
    n_text: int = 1
    title: str = ""

    def render(self, form: str) -> str:
        """The table as ``markdown``, ``latex`` or ``csv``."""
        if form == "markdown":
            return self._markdown()
        if form == "latex":
            return self._latex()
        if form == "csv":
            return self._csv()
        raise ValueError(f"A table is printed as {', '.join(TEXT_FORMATS)}; got {form!r}.")

    def _markdown(self) -> str:
        rule = ["---"] * self.n_text + ["---:"] * (len(self.headers) - self.n_text)
        rows = [_pipes(self.headers), _pipes(rule)]
        for section in self.sections:
            rows += [_pipes([f"**{_md(c.text)}**" if c.bold else _md(c.text) for c in row]) for row in section]
        head = [f"**{_md(self.title)}**", ""] if self.title else []
        return "\n".join([*head, *rows])

    def _latex(self) -> str:
        columns = "l" * self.n_text + "r" * (len(self.headers) - self.n_text)
        lines = [f"% {self.title}"] if self.title else []
        lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _ampersands([_tex(h) for h in self.headers])]
        for section in self.sections:
            lines.append(r"\midrule")
            lines += [
                _ampersands([rf"\textbf{{{_tex(c.text)}}}" if c.bold else _tex(c.text) for c in row]) for row in section
            ]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def _csv(self) -> str:
        target = io.StringIO()
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow([safe_cell(header) for header in self.headers])
        writer.writerows([safe_cell(cell.text) for cell in row] for section in self.sections for row in section)
        return target.getvalue().rstrip("\n")


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ampersands(cells: Sequence[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _md(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")


def _tex(text: str) -> str:
    return "".join(_LATEX_ESCAPES.get(letter, letter) for letter in text)
