"""The result of labelling for callers: data, and methods that write the table and all other outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from marginshot.labelling.items.store import open_store
from marginshot.labelling.items.tables import write_table
from marginshot.labelling.outputs.gallery import render_table, write_gallery
from marginshot.labelling.outputs.outputs import Outputs, Written
from marginshot.labelling.outputs.requests import Action
from marginshot.labelling.outputs.result import PathLike, Result


class Labelling(Result):
    """A label for every item, how sure it is, and what deserves a second look.

    What it holds is described in `Result`; all that it writes, here.
    """

    def save(self, path: str | Path) -> None:
        """Write the table as ``.csv``, ``.tsv`` or ``.parquet``."""
        write_table(self.columns(), Path(path))

    def write(
        self,
        path: PathLike,
        *,
        transfer: Action | None = None,
        gallery: bool = True,
        exports: Sequence[str] = (),
        model: PathLike | None = None,
        force: bool = False,
        cache: bool | PathLike = True,
    ) -> Written:
        """Write the labels and all that goes with them, as ``marginshot label`` does.

        Everything is checked before anything is written: no output goes over an input, nor over a file that is not,
        or no longer, as it was written before. Where an earlier call with the same request was stopped while it put
        pictures into class folders, that is completed, and nothing is written anew; see also `resume`.

        Parameters
        ----------
        path : path
            For pictures a folder, which gets ``labels.csv``; else the table (``.csv``, ``.tsv``, ``.parquet``), the
            other files stand beside it under its name.
        transfer : {"copy", "move", "link"}, optional
            Put each picture into the folder of its class, below ``path``.
        gallery : bool, default=True
            Write the page ``gallery.html``.
        exports : sequence of str, default=()
            Write for these tools too: names of `marginshot.labelling.outputs.formats.Tool`, such as "fiftyone".
        model : path, optional
            Save the model there.
        force : bool, default=False
            Replace files that others made or changed.
        cache : bool or path, default=True
            Remember which files marginshot wrote, in the user's cache folder or the one given. False takes every
            existing file for somebody else's.

        Returns
        -------
        Written
            The files, and how it went with the pictures. Suggestions are written where there are any.

        Examples
        --------
        >>> import tempfile
        >>> from marginshot.labelling import label_embeddings, label_images
        >>> result = label_embeddings([[0, 5], [5, 0], [1, 6], [6, 1]], ["ash", "oak", "", ""])
        >>> written = result.write(Path(tempfile.mkdtemp()) / "trees.csv", gallery=False, cache=False)
        >>> print(written.files[0].read_text())  # doctest: +ELLIPSIS
        item,label,probability,runner_up,review
        row 1,ash,1.0,,example
        row 2,oak,1.0,,example
        row 3,ash,...
        row 4,oak,...
        <BLANKLINE>

        >>> result = label_images("photos", "my-examples", suggest=20)             # doctest: +SKIP
        >>> written = result.write("labelled", transfer="copy", exports=["bulk"])  # doctest: +SKIP
        """
        outputs = Outputs(
            path=Path(path),
            pictures=self.collection.kind.in_folder,
            transfer=transfer,
            gallery=gallery,
            suggestions=len(self.answers.suggested) > 0,
            exports=tuple(exports),
            model=None if model is None else Path(model),
        )
        written = outputs.write(self, open_store(cache), force=force)
        if written.placed is not None:
            written.placed.check_complete()
        return written

    def write_gallery(self, path: str | Path) -> None:
        """Write a self-contained HTML page to look through the labels."""
        write_gallery(self, Path(path))

    def _repr_html_(self) -> str:
        return render_table(self)
