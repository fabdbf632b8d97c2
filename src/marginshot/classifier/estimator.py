"""FS-TMMC and FS-MMC as a scikit-learn classifier."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from marginshot.classifier import large, persistence
from marginshot.classifier.progress import FitMonitor, warn_interrupted
from marginshot.classifier.settings import PAPER_LAMBDA2, PRESETS, Settings
from marginshot.data.rows import ArrayRows
from marginshot.model.calibration import Calibration, probabilities_of
from marginshot.model.graph import spread_labels
from marginshot.model.kernels import KernelFunction, call_kernel
from marginshot.model.margin import MarginLoss, one_vs_rest
from marginshot.model.named_transforms import fit_rows, make_transform
from marginshot.model.neighbours import NeighbourSmoothing, check_neighbours
from marginshot.model.shares import offsets, starting_prior
from marginshot.model.subsets import sample_rows
from marginshot.model.task_mixture import find_mixture, keeps_lengths, needs_mixture
from marginshot.model.transforms import transform_rows
from marginshot.solvers.continuation import Path, follow_path, stage_tolerances

Array = NDArray[np.float64]


class TransductiveMaxMarginClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Transductive maximum-margin classifier (FS-TMMC): a few labelled rows, many unlabelled ones, all used by `fit`.

    For each class, one against the rest, `fit` minimises over f = Σ α_i k(x_i, ·) + offset

        λ1/2 αᵀKα + 1/n Σ_labelled w_i/γ1 log(1 + exp(γ1 (1 − y_i f_i))) + λ2/m Σ_unlabelled exp(−γ2 f_i²)

    along a growing λ2: the unlabelled rows push the separating plane out of dense regions. Scores become probabilities
    by Platt scaling on the labelled rows. ``lambda2=(0,)``, or a ``y`` with nothing unlabelled, gives FS-MMC. The
    defaults are the paper's; `from_preset` ("auto") is the better choice for unbalanced or many classes.

    `fit` is where the unlabelled rows are used together; `predict` is inductive: it applies the fitted planes row by
    row. On the unlabelled rows of `fit` it gives the labels of ``transduction_``.

    Unlabelled rows are marked by −1 in a numeric ``y``; among string labels by −1, None, NaN or the empty string.

    Parameters
    ----------
    lambda1 : float, default=0.04
        Weight of the squared norm of f (λ1).
    lambda2 : sequence of float or "auto", default=(0, 1e-5, 1e-3, 0.1, 1)
        The growing weights of the unlabelled rows (λ2), each stage started from the last. ``(0,)`` gives FS-MMC;
        "auto" ends at min(1, 5/n_classes).
    gamma1 : float, default=20
        Sharpness of the smoothed hinge (γ1).
    gamma2 : float, default=2
        Sharpness of the query term (γ2).
    prior : {"uniform", "estimate"}, array of shape (n_classes,), or None, default="uniform"
        Share π of each class among the unlabelled rows, in the order of ``classes_``. Sets the offset 2π − 1, which the
        paper's equations leave out and without which the method does not work; None gives the equations as printed.
        "estimate" finds π in the task itself; see `marginshot.model.mixture`.
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        With "precomputed", `fit` takes the (n_rows, n_rows) kernel matrix and `predict` the kernel between new rows and
        those of `fit`; no transform is applied. A callable takes (a, D) and (b, D) and returns (a, b).
    gamma : "scale" or float, default="scale"
        Width of "rbf" and "poly"; "scale" is one over the total variance of the transformed rows.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=1
        Constant of "poly".
    n_neighbors : int, default=0
        Average each row with this many nearest neighbours before the planes are fitted, with fewer or none where rows
        are few; see `marginshot.model.neighbours`.
    calibration : {"platt", "softmax", "mixture", "graph"}, default="platt"
        How margins become probabilities: Platt scaling on the labelled rows; a softmax of log2(n_classes) · f; jointly
        with a mixture of class clusters; or with this and labels spread over the graph of neighbours. See
        `marginshot.model.calibration`, and `marginshot.model.graph` for the last, which needs ``n_neighbors``.
    feature_transform : {"cl2n", "power", "discriminant", None} or transformer, default="cl2n"
        "cl2n" centres on the mean of labelled and unlabelled rows and scales to unit length; new rows use the stored
        mean. "power" first shortens long tails, sign(x) |x|^0.75. "discriminant" also learns from the labels where the
        middle between the classes lies and what varies within them, see `marginshot.model.discriminant`: for use with
        ``n_neighbors``, as in the preset. None leaves the rows as they are; a scikit-learn transformer is cloned and
        fitted on all rows, without labels.
    tol : float, default=3e-4
        The last stage ends when the norm of the gradient in function space, sqrt(gᵀKg), is at most this; the first,
        convex one is solved three times as tightly, those between, which only lead on, ten times as loosely.
    max_iter : int, default=500
        Iterations of one stage of one class; reaching it raises a ConvergenceWarning.
    solver : {"auto", "dual", "primal"}, default="auto"
        "dual" works on the kernel matrix, "primal" on the planes themselves, in blocks of rows, without ever copying
        X. "auto" takes the cheaper one: the planes from about 1,000 rows on with a linear kernel, and from 5,000 on
        with "rbf" and "poly", which the primal approximates by scikit-learn's Nystroem.
    n_landmarks : int, default=500
        Rows the approximation compares with; only for "rbf" and "poly" in the primal.
    verbose : int, default=0
        1 writes a line to standard error at each stage and every few seconds, 2 at each iteration.
    callback : callable or None, default=None
        Called at each iteration with a `marginshot.classifier.progress.FitProgress`. Raising KeyboardInterrupt in it
        acts as Ctrl-C does: `fit` returns with the last complete stage and a warning.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transduction_ : ndarray of shape (n_rows,)
        A label for every row of `fit`; given labels never change.
    label_distributions_ : ndarray of shape (n_rows, n_classes)
        Probabilities behind ``transduction_``; certainty for the given labels. Single precision in the primal, and left
        out where it would be larger than 256 MB and a tenth of X.
    dual_coef_ : ndarray of shape (n_classes, n_rows)
        α of each class, where the kernel matrix was used; over the landmarks with an approximated kernel.
    coef_ : ndarray of shape (n_classes, n_features)
        The planes in transformed feature space; linear kernel only.
    intercept_ : ndarray of shape (n_classes,)
        The offsets 2π − 1.
    prior_ : ndarray of shape (n_classes,)
    objective_ : ndarray of shape (n_classes, n_stages)
        Value of the objective at the end of each stage.
    n_iter_ : ndarray of shape (n_classes,)
        Iterations over all stages.
    solver_ : {"dual", "primal"}
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> X, truth = load_digits(return_X_y=True)
    >>> y = np.full(len(X), -1)
    >>> y[:10] = truth[:10]                                     # one example a class, 1,787 unlabelled
    >>> clf = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
    >>> bool(np.mean(clf.transduction_ == truth) > 0.75)
    True
    """

    def __init__(
        self,
        *,
        lambda1: float = 0.04,
        lambda2: Any = PAPER_LAMBDA2,
        gamma1: float = 20.0,
        gamma2: float = 2.0,
        prior: Any = "uniform",
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        n_neighbors: int = 0,
        calibration: str = "platt",
        feature_transform: Any = "cl2n",
        tol: float = 3e-4,
        max_iter: int = 500,
        solver: str = "auto",
        n_landmarks: int = 500,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.prior = prior
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_neighbors = n_neighbors
        self.calibration = calibration
        self.feature_transform = feature_transform
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_landmarks = n_landmarks
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Solve for the planes of all classes on labelled and unlabelled rows together.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Or the kernel matrix (n_rows, n_rows) with ``kernel="precomputed"``. A memory-mapped array, a
            `marginshot.data.rows.ParquetRows` and a Dask array of row blocks are read block by block.
        y : array of shape (n_rows,)
            Labels; −1 where unknown (among strings also None, NaN or "").
        """
        settings = self._settings()
        large.check_options(self)
        self._forget()
        source = self._open(X, reset=True)
        known = large.read_labels(source, y)
        settings = settings.for_task(len(known.classes), source.shape[0] - len(known.index))
        starting_prior(self.prior, len(known.classes))
        if large.chooses_primal(self, source, len(known.classes)):
            large.fit(self, source, known, settings)
            return self
        X = self._check(X, reset=True)
        self.classes_ = known.classes
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(f'X must be a square kernel matrix with kernel="precomputed"; got shape {X.shape}.')
        self._transformer = None if self.kernel == "precomputed" else make_transform(self.feature_transform)
        check_neighbours(settings, self._transformer)
        codes = known.codes(len(X))
        rows, lengths = fit_rows(self._transformer, X, codes)
        self._smoothing = NeighbourSmoothing.of_task(self.n_neighbors, len(rows), known)
        if self._smoothing is not None:
            rows = self._smoothing.fit_transform(rows)
        self._graph, hints = spread_labels(self._smoothing, known.index, known.labels, len(self.classes_), settings)
        self._kernel_function = None
        if self.kernel in ("rbf", "poly"):
            self._kernel_function = KernelFunction.fitted(settings, rows @ rows.T)
        averaged = None
        if self._smoothing is not None and keeps_lengths(settings, len(self.classes_)):
            averaged = partial(self._smoothing.average, lengths=lengths)
        score_coef = self._solve(self._kernel_matrix(rows, rows), codes, settings, hints, averaged)
        self.solver_ = "dual"
        # What a new row is compared with: the planes if there are any, else the rows of the expansion.
        self._rows = None if self.kernel in ("linear", "precomputed") else rows
        self._score_coef: Array = rows.T @ score_coef if self.kernel == "linear" else score_coef
        if self.kernel == "linear":
            self.coef_ = self.dual_coef_ @ rows
        return self

    def _forget(self) -> None:
        """Drop what an earlier `fit` learned, so that one that fails leaves an unfitted classifier, not a mixed one."""
        for name in ("_score_coef", "coef_", "dual_coef_", "transduction_", "label_distributions_"):
            self.__dict__.pop(name, None)

    def _settings(self) -> Settings:
        parameters = self.get_params(deep=False)
        for name in ("feature_transform", "solver", "n_landmarks", "verbose", "callback"):
            del parameters[name]
        return Settings(**parameters)

    def _open(self, X: Any, *, reset: bool) -> large.Table:
        """X as a table of row blocks: as it is where it is large, checked and converted where it is not."""
        source = large.as_source(X)
        if source is None:
            return ArrayRows(self._check(X, reset=reset))
        validate_data(self, X, reset=reset, skip_check_array=True)
        return source

    def _check(self, X: ArrayLike, *, reset: bool) -> NDArray[np.floating]:
        # float16 is widened: its sums overflow.
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])

    def _kernel_matrix(self, left: NDArray[np.floating], right: NDArray[np.floating] | None) -> Array:
        """Kernel (a, b) between transformed rows; with "precomputed" ``left`` is that kernel already."""
        if self.kernel == "precomputed" or right is None:
            return left.astype(np.float64, copy=False)
        if callable(self.kernel):
            return call_kernel(self.kernel, left, right)
        inner = (left @ right.T).astype(np.float64)
        if self._kernel_function is None:
            return inner
        squares = [np.einsum("ij,ij->i", rows, rows) for rows in (left, right)]
        return self._kernel_function(inner, *squares).astype(np.float64, copy=False)

    def _solve(
        self,
        gram: Array,
        codes: NDArray[np.int64],
        settings: Settings,
        hints: Array | None,
        averaged: Callable[[NDArray[np.int64]], NDArray[np.floating]] | None,
    ) -> Array:
        """Set what is learned from the kernel matrix (n_rows, n_rows) and the class indices (n_rows,).

        ``hints`` (n_rows, n_classes) are the logits of the graph of neighbours, where there is one; ``averaged`` gives
        rows by their numbers for `find_mixture`.

        Returns the coefficients of the scores over the rows, (n_rows, n_classes).
        """
        support, query = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        order = np.concatenate((support, query))
        ordered = gram[np.ix_(order, order)]
        labels = codes[support]
        hints = np.zeros((len(gram), len(self.classes_))) if hints is None else hints[order]
        shares = starting_prior(self.prior, len(self.classes_))
        mixture = None
        if needs_mixture(settings):
            positions, queries = sample_rows(np.arange(len(support)), labels, len(ordered))
            chosen = np.concatenate((positions, queries))
            mixture = find_mixture(
                ordered[np.ix_(chosen, chosen)],
                labels[positions],
                shares,
                settings,
                hints[queries],
                None if averaged is None else averaged(order[chosen]),
                len(query),
            )
            mixture = mixture.over_rows(chosen, len(ordered))
            shares = mixture.shares
        monitor = FitMonitor(self.verbose, self.callback, settings.stages, len(self.classes_))
        path = _follow(ordered, labels, offsets(self.prior, shares), settings, monitor)
        graph_weight = 0.0 if self._graph is None else self._graph.weight
        calibration = Calibration.fit(self.calibration, path.scores[: len(support)], labels, mixture, graph_weight)
        score_coef, self._score_intercept = calibration.planes(path.coef, offsets(self.prior, shares), mixture)
        self._graph_scale = float(calibration.of_graph)
        scores = ordered @ score_coef + self._score_intercept + self._graph_scale * hints
        scores[~ordered.any(axis=1)] = 0.0
        probabilities = probabilities_of(self.calibration, scores)
        if path.interrupted:
            warn_interrupted(settings.stages, path.objective.shape[1], stacklevel=3)
        else:
            self._warn_unconverged(path, settings)
        self.prior_, self.intercept_ = shares, offsets(self.prior, shares)
        self.dual_coef_ = np.empty((len(self.classes_), len(gram)))
        self.dual_coef_[:, order] = path.coef.T
        self.objective_, self.n_iter_ = path.objective, path.n_iter.sum(axis=1)
        probabilities[: len(support)] = np.eye(len(self.classes_))[labels]
        self.label_distributions_ = np.empty_like(probabilities)
        self.label_distributions_[order] = probabilities
        self.transduction_ = self.classes_[self.label_distributions_.argmax(axis=1)]
        return score_coef[np.argsort(order)]

    @large.lazy_on_dask
    def margins(self, X: ArrayLike) -> Array:
        """f of each class at each row, (n_rows, n_classes): Eq. (6) plus the offset. Zero is the separating plane."""
        planes = self.coef_ if self.kernel == "linear" else self.dual_coef_

        def margins_of(block: NDArray[np.floating]) -> Array:
            rows, _ = self._transformed(block)
            return np.asarray(self._kernel_features(rows) @ planes.T + self.intercept_)

        return large.map_blocks(self._open(X, reset=False), margins_of, len(self.classes_))

    def _transformed(self, block: NDArray[np.floating]) -> tuple[NDArray[np.floating], Array | float]:
        """Checked rows (n, D), transformed and smoothed as those of `fit` were, and the graph's logits (n, N)."""
        rows = block if self._transformer is None else transform_rows(self._transformer, block)
        if self._smoothing is None:
            return rows, 0.0
        around = self._smoothing.look_around(rows)
        hints = 0.0 if self._graph is None else self._graph.logits(self._smoothing.rows, rows, around)
        return self._smoothing.transform(rows, around), hints

    def _kernel_features(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        """What the planes are multiplied with: transformed rows, or their kernel with the rows of the expansion."""
        return rows if self.kernel == "linear" else self._kernel_matrix(rows, self._rows)

    def _scores_of(self, rows: NDArray[np.floating], hints: Array | float) -> Array:
        """Calibrated scores (n, n_classes) of transformed rows; zero for every class where nothing speaks for any."""
        features = self._kernel_features(rows)
        scores: Array = features @ self._score_coef + self._score_intercept + self._graph_scale * hints
        scores[~features.any(axis=1)] = 0.0
        return scores

    def _scores(self, X: ArrayLike) -> Array:
        """The same for new rows, block by block."""
        source = self._open(X, reset=False)
        return large.map_blocks(source, lambda block: self._scores_of(*self._transformed(block)), len(self.classes_))

    @large.lazy_on_dask
    def decision_function(self, X: ArrayLike) -> Array:
        """Calibrated scores (n_rows, n_classes), of which the largest is the answer; with two classes (n_rows,).

        Under Platt scaling they are the log-odds A_c f_c + B_c, else logits; of two classes they are those of the
        second, above zero where it is the answer. The bare f_c are given by `margins`.
        """
        scores = self._scores(X)
        if len(self.classes_) != 2:
            return scores
        difference: Array = scores[:, 1] - scores[:, 0]
        # Platt's log-odds of two classes mirror each other; logits are only told by their difference.
        return 0.5 * difference if self.calibration == "platt" else difference

    @large.lazy_on_dask
    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each class at each row, (n_rows, n_classes)."""
        return probabilities_of(self.calibration, self._scores(X))

    @large.lazy_on_dask
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of each row, (n_rows,), by the fitted planes, whatever the other rows are."""
        return np.asarray(self.classes_[self._scores(X).argmax(axis=1)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write planes, mean, classes and settings to an ``.npz`` file without pickle, for `load`."""
        check_is_fitted(self)
        persistence.save(self, path)

    @classmethod
    def from_preset(cls, preset: str, **parameters: Any) -> Self:
        """An unfitted classifier with the parameters of a preset, "paper" or "auto", and any others given here.

        Examples
        --------
        >>> TransductiveMaxMarginClassifier.from_preset("auto", lambda1=0.1)
        TransductiveMaxMarginClassifier(calibration='graph',
                                        feature_transform='discriminant', lambda1=0.1,
                                        lambda2='auto', n_neighbors=8,
                                        prior='estimate')
        """
        if preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}.")
        return cls(**(PRESETS[preset] | parameters))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator written by `save`; it predicts as before, and has no ``transduction_``."""
        return persistence.load(cls, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_score_coef")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _warn_unconverged(self, path: Path, settings: Settings) -> None:
        tolerances = stage_tolerances(settings.tol, len(settings.stages))
        missed = np.argwhere(~(path.gradient_norm <= tolerances))  # NaN has not converged
        if len(missed):
            c, stage = missed[0]
            others = f" Nor did {len(missed) - 1} other stages of {path.gradient_norm.size}." if len(missed) > 1 else ""
            warnings.warn(
                f"Class {self.classes_[c]} did not converge at lambda2={settings.stages[stage]:g}: gradient norm "
                f"{path.gradient_norm[c, stage]:.2g} > {tolerances[stage]:g} after {path.n_iter[c, stage]} iterations."
                f"{others} Raise max_iter (now {settings.max_iter}) or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _follow(
    gram: Array, labels: NDArray[np.int64], class_offsets: Array, settings: Settings, monitor: FitMonitor | None = None
) -> Path:
    """The λ2 sequence on a kernel matrix with the support rows first."""
    signs, weights = one_vs_rest(labels, len(class_offsets))
    return follow_path(
        gram,
        lambda lambda2: MarginLoss(signs, weights, settings.gamma1, settings.gamma2, lambda2),
        settings.stages,
        n_support=len(labels),
        offsets=class_offsets,
        lambda1=settings.lambda1,
        tol=settings.tol,
        max_iter=settings.max_iter,
        on_iteration=monitor,
    )
