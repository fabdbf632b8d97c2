"""FS-TMMC and FS-MMC as a scikit-learn classifier."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from marginshot._lib.seeds import RandomStateOption, draw_seed
from marginshot._lib.threads import limit_threads
from marginshot._lib.warn import warn_user
from marginshot.classifier import persistence
from marginshot.classifier.large import SOLVERS, LargeTask, chooses_primal
from marginshot.classifier.passes import column_sums
from marginshot.classifier.pipeline import Solution, solve
from marginshot.classifier.predictor import Predictor
from marginshot.classifier.progress import FitMonitor, warn_interrupted
from marginshot.classifier.settings import (
    FEWER_LAMBDA2,
    CalibrationOption,
    KernelOption,
    Lambda2Option,
    PresetOption,
    PriorOption,
    Settings,
    check_count,
    preset_parameters,
)
from marginshot.classifier.small import SmallTask
from marginshot.classifier.sources import (
    lazy_on_dask,
    open_table,
    read_beliefs,
    read_labels,
    read_numbers,
    read_picked,
    share_weights,
    weigh_labels,
)
from marginshot.classifier.task import Problem
from marginshot.classifier.transduction import Transduction, distributions_of
from marginshot.data.rows import map_blocks
from marginshot.model.shares import starting_prior
from marginshot.model.transforms import widened
from marginshot.solvers.continuation import Path, stage_tolerances

Array = NDArray[np.float64]


class TransductiveMaxMarginClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Transductive maximum-margin classifier (FS-TMMC): a few labelled rows, many unlabelled ones, all used by `fit`.

    For each class, one against the rest, `fit` minimises over f = Σ α_i k(x_i, ·) + offset

        λ1/2 αᵀKα + 1/n Σ_labelled w_i/γ1 log(1 + exp(γ1 (1 − y_i f_i))) + λ2/m Σ_unlabelled exp(−γ2 f_i²)

    along a growing λ2: the unlabelled rows push the separating plane out of dense regions.

    The defaults are those of the preset "auto": class shares are estimated, and a mixture, the graph of neighbours and
    a softmax regression answer beside the planes. ``from_preset("paper")`` is FS-TMMC as published, whose scores become
    probabilities by Platt scaling on the labelled rows; ``from_preset("paper", lambda2=(0,))`` is FS-MMC, as is the
    preset "paper" where ``y`` leaves nothing unlabelled.

    `fit` is where the unlabelled rows are used together; `predict` is inductive: it applies the fitted planes row by
    row. On the unlabelled rows of `fit` it gives the labels of ``transduction_``.

    Unlabelled rows are marked by −1 in a numeric ``y``; among string labels by −1, None, NaN or the empty string.

    Parameters
    ----------
    lambda1 : float, default=0.04
        Weight of the squared norm of f (λ1).
    lambda2 : sequence of float, default=(0, 0.1, 1)
        The growing weights of the unlabelled rows (λ2), each stage started from the last; with ``(0,)`` they do not
        take part. The paper's stages are (0, 1e-5, 1e-3, 0.1, 1).
    gamma1 : float, default=20
        Sharpness of the smoothed hinge (γ1).
    gamma2 : float, default=2
        Sharpness of the query term (γ2).
    prior : {"uniform", "estimate"}, array of shape (n_classes,), or None, default="estimate"
        Share π of each class among the unlabelled rows, in the order of ``classes_``. Sets the offset 2π − 1, without
        which the method does not work; None gives the equations as printed. "estimate" finds π in the task itself
        (`marginshot.model.shares`). Where it finds equal shares, the calibrations "mixture" and "graph" correct the
        answers towards them, the more the surer they are.
    meet_prior : bool, default=False
        Answers to the unlabelled rows have exactly the shares of ``prior``, which then have to be known: each class
        gets a bias, which `predict` keeps (`marginshot.model.counts`). For the calibrations "mixture" and "graph".
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        With "precomputed", `fit` takes the (n_rows, n_rows) kernel matrix and `predict` the kernel between new rows and
        those of `fit`; no transform is applied. A callable takes (a, D) and (b, D) and returns (a, b).
    gamma : "scale" or float, default="scale"
        Width of "rbf" and "poly"; "scale" is one over the total variance of the transformed rows.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=1
        Constant of "poly".
    n_neighbors : int, default=8
        Average each row with this many nearest neighbours before the planes are fitted, with fewer or none where rows
        are few; see `marginshot.model.neighbours`.
    calibration : {"platt", "logistic", "none", "softmax", "mixture", "graph"}, default="graph"
        How margins become probabilities: Platt scaling on the labelled rows, with Platt's smoothed targets or as a
        logistic regression on 0 and 1; a softmax of f, or of log2(n_classes) · f, in the order of the margins. With
        "mixture" the planes answer jointly with a mixture of class clusters, beside a softmax regression, and labels
        that are hidden in turn weigh the two (`marginshot.model.stacking`). "graph" adds labels spread over the graph
        of neighbours (`marginshot.model.graph`), and needs ``n_neighbors``.
    feature_transform : {"cl2n", "power", "discriminant", None} or transformer, default="discriminant"
        "cl2n" centres on the mean of labelled and unlabelled rows and scales to unit length; new rows use the stored
        mean. "power" first shortens long tails, ``sign(x) |x|^0.75``. "discriminant" also learns from the labels where
        the middle between the classes lies and what varies within them, see `marginshot.model.discriminant`: for use
        with ``n_neighbors``. None does not transform rows; a scikit-learn transformer is cloned
        and fitted on all rows, without labels.
    tol : float, default=3e-4
        The last stage ends when the norm of the gradient in function space, sqrt(gᵀKg), is at most this; those before
        it, which only lead on, when it is at most 30 times as large.
    max_iter : int, default=500
        Iterations of one stage of one class; reaching it raises a ConvergenceWarning.
    solver : {"auto", "dual", "primal"}, default="auto"
        "dual" works on the kernel matrix, "primal" on the planes themselves, in blocks of rows, without ever copying
        X. "auto" takes the cheaper one: the planes from about 1,000 rows on with a linear kernel, and from 5,000 on
        with "rbf" and "poly", which the primal approximates by scikit-learn's Nystroem.
    n_landmarks : int, default=500
        Rows the approximation compares with; only for "rbf" and "poly" in the primal.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the samples of rows by which a large task is judged, and of the landmarks. A generator, or with None
        NumPy's global one, draws another seed in each `fit`. A task of a few hundred rows is used whole.
    n_jobs : int or None, default=None
        Threads of a large task and of BLAS; None means as many as BLAS is set to use (``OMP_NUM_THREADS``), −1 all
        cores.
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
        Probabilities behind ``transduction_``; certainty for the given labels. Where it would be larger than 256 MB and
        a tenth of X it is not kept, and X is read again when it is asked for.
    planes_ : ndarray of shape (n_classes, n_features)
        The planes of f in transformed feature space; linear kernel only. With ``offsets_`` they give `margins`.
    offsets_ : ndarray of shape (n_classes,)
        The constant part 2π − 1 of f.
    alphas_ : ndarray of shape (n_classes, n_rows)
        α of each class, where the kernel matrix was used; over the landmarks with an approximated kernel.
    prior_ : ndarray of shape (n_classes,)
    objective_ : ndarray of shape (n_classes, n_stages)
        Value of the objective at the end of each stage.
    n_iter_ : ndarray of shape (n_classes,)
        Iterations over all stages.
    domains_ : ndarray of int of shape (n_rows,) or None
        Domain of each row of `fit`, given or found; None where the transform knows none.
    hidden_rows_ : ndarray of int of shape (n_hidden,)
        Labelled rows of `fit` whose labels were hidden in turn; with more than a few hundred labels, a sample of them.
    hidden_distributions_ : ndarray of shape (n_hidden, n_classes)
        Class probabilities of these rows by all other labels; a given label of small probability may be wrong.
    class_prior_weight_ : float
        Factor of the logarithms of ``class_prior`` in the scores: ``decision_function(X) + class_prior_weight_ *
        np.log(beliefs)`` scores later rows with beliefs of their own. 1 without ``class_prior``.
    solver_ : {"dual", "primal"}
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> X, truth = load_digits(return_X_y=True)
    >>> y = np.full(len(X), -1)
    >>> y[:10] = truth[:10]                                     # one example a class, 1,787 unlabelled
    >>> clf = TransductiveMaxMarginClassifier().fit(X, y)
    >>> bool(np.mean(clf.transduction_ == truth) > 0.75)
    True
    """

    def __init__(
        self,
        *,
        lambda1: float = 0.04,
        lambda2: Lambda2Option = FEWER_LAMBDA2,
        gamma1: float = 20.0,
        gamma2: float = 2.0,
        prior: PriorOption = "estimate",
        meet_prior: bool = False,
        kernel: KernelOption = "linear",
        gamma: Literal["scale"] | float = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        n_neighbors: int = 8,
        calibration: CalibrationOption = "graph",
        feature_transform: Literal["cl2n", "power", "discriminant"] | Any | None = "discriminant",
        tol: float = 3e-4,
        max_iter: int = 500,
        solver: Literal["auto", "dual", "primal"] = "auto",
        n_landmarks: int = 500,
        random_state: RandomStateOption = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.prior = prior
        self.meet_prior = meet_prior
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
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        domains: ArrayLike | None = None,
        picked: ArrayLike | None = None,
        class_prior: ArrayLike | None = None,
    ) -> Self:
        """Solve for the planes of all classes on labelled and unlabelled rows together.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Or the kernel matrix (n_rows, n_rows) with ``kernel="precomputed"``. A memory-mapped array, a
            `marginshot.data.rows.ParquetRows` and a Dask array of row blocks are read block by block.
        y : array of shape (n_rows,)
            Labels; −1 where unknown (among strings also None, NaN or "").
        sample_weight : array of shape (n_rows,), optional
            Weight of each labelled row among those of its class; 1 by default. A labelled row of weight
            zero is an unlabelled one; weights of unlabelled rows are not read.
        groups : array of shape (n_rows,), optional
            Rows of one group are one example: frames of a burst, clips of a recording, copies. Labelled rows of a class
            and group share the weight of one, labels are hidden group by group, and of the unlabelled rows of a group
            one takes part in the mixture.
        domains : array of shape (n_rows,), optional
            Camera, light or source of each row: the rows of each domain are centred on their own mean. By default,
            domains are found where labels show that rows split into several (`marginshot.model.domains`). Zeros keep
            all rows in one. Only ``feature_transform="discriminant"`` knows domains.
        picked : array of bool of shape (n_rows,), optional
            Labelled rows that somebody picked because their answers were wrong. They are examples like others, but the
            accuracy of answers is estimated without them, except in classes that have no other labelled rows.
        class_prior : array of shape (n_rows, n_classes), optional
            Beliefs, at least 0, about the class of each row, labelled ones included: from class names, a language
            model, an old model or a noisy column, which must not have seen ``y``. Columns are in the order of
            ``classes_``; a row of zeros says nothing. Labels judge how far they are trusted
            (`marginshot.model.beliefs`). They take part in ``transduction_``, but not in `predict`.
        """
        settings = self._settings()
        self._check_options()
        self._forget()
        with limit_threads(self.n_jobs):
            task = self._open_task(X, y, settings, sample_weight, groups, domains, picked, class_prior)
            solution = solve(task, task.settings, starting_prior(self.prior, task.n_classes))
            self._learn(task, solution)
        return self

    def _open_task(
        self,
        X: ArrayLike,
        y: ArrayLike,
        settings: Settings,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        domains: ArrayLike | None = None,
        picked: ArrayLike | None = None,
        class_prior: ArrayLike | None = None,
    ) -> SmallTask | LargeTask:
        """The task of the user's rows and labels, small or large."""
        table = open_table(self, X, reset=True)
        n_rows = table.shape[0]
        known, weights = weigh_labels(sample_weight, read_labels(table, y), n_rows)
        n_classes, numbers = len(known.classes), read_numbers(groups, n_rows, "group")
        starting_prior(self.prior, n_classes)  # raises now, before rows are read, where it does not fit the classes
        is_large = chooses_primal(self.solver, settings, table, n_classes)
        if not settings.kernel_function.takes_rows and n_rows != table.shape[1]:
            raise ValueError(f'X must be a square kernel matrix with kernel="precomputed"; got shape {table.shape}.')
        problem = Problem(
            table=table,
            known=known,
            weights=share_weights(weights, known, numbers),
            groups=numbers,
            domains=read_numbers(domains, n_rows, "domain"),
            picked=read_picked(picked, n_rows)[known.index],
            transformer=settings.make_transformer(),
            settings=settings,
            monitor=FitMonitor(self.verbose, self.callback, settings.stages, n_classes),
            n_landmarks=self.n_landmarks,
            seed=draw_seed(self.random_state),
            beliefs=read_beliefs(table, class_prior, n_classes),
        )
        return LargeTask(problem) if is_large else SmallTask(problem)

    def _learn(self, task: SmallTask | LargeTask, solution: Solution) -> None:
        """Set every learned attribute. Ctrl-C in the last step leaves the planes without transduction."""
        path, settings = task.path, task.settings
        predictor = task.predictor(solution)
        self.classes_, self.prior_ = task.known.classes, solution.shares
        self.objective_, self.n_iter_ = path.objective, path.n_iter.sum(axis=1)
        self.class_prior_weight_ = task.trust_in_beliefs(solution)
        self.solver_ = "dual" if isinstance(task, SmallTask) else "primal"
        self.domains_ = task.domains
        self.hidden_rows_, self.hidden_distributions_ = np.zeros(0, np.int64), np.zeros((0, task.n_classes))
        if solution.hidden is not None:
            self.hidden_rows_ = task.known.index[solution.hidden.positions]
            self.hidden_distributions_ = solution.hidden.probabilities
        self._restore(predictor)
        if isinstance(task, SmallTask):
            self.alphas_ = task.alphas()
        if path.interrupted:
            warn_interrupted(settings.stages, path.objective.shape[1])
        else:
            self._warn_unconverged(path, settings)
        transduction = Transduction.of_task(task, predictor, solution)
        self.transduction_, self._distributions = transduction.labels, transduction.distributions
        if self._distributions is None:
            self._fitted_on = (task.problem.table, task.known)

    def _restore(self, predictor: Predictor) -> None:
        """Set what follows from the predictor alone."""
        self._predictor, self.offsets_ = predictor, predictor.offsets
        if predictor.kernel.is_linear:
            self.planes_ = predictor.planes.T
        else:
            self.alphas_ = predictor.planes.T

    @property
    def label_distributions_(self) -> Any:
        """Probabilities (n_rows, n_classes) of all rows of `fit`; certainty for the given labels."""
        if not hasattr(self, "transduction_"):
            raise AttributeError("label_distributions_ belongs to a classifier that was fitted here: call fit first.")
        if self._distributions is not None:
            return self._distributions
        if not hasattr(self, "_fitted_on"):
            raise AttributeError("label_distributions_ was too large to be pickled; use predict_proba(X).")
        table, known = self._fitted_on
        return distributions_of(table, self._predictor, self._settings().answers, known)

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        state.pop("_fitted_on", None)  # the user's X does not belong into a pickle
        return state

    def _forget(self) -> None:
        """Drop what an earlier `fit` learned, so that one that fails leaves an unfitted classifier, not a mixed one."""
        for name in ("_predictor", "planes_", "alphas_", "offsets_", "transduction_", "_distributions", "_fitted_on"):
            self.__dict__.pop(name, None)

    def _settings(self) -> Settings:
        parameters = self.get_params(deep=False)
        names = ("solver", "n_landmarks", "random_state", "n_jobs", "verbose", "callback")
        for name in names:
            del parameters[name]
        return Settings(**parameters)

    def _check_options(self) -> None:
        """Raise ValueError for an option that is not valid."""
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; got {self.solver!r}.")
        check_count("n_landmarks", self.n_landmarks, 2)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be a callable or None; got {self.callback!r}.")

    @lazy_on_dask
    def margins(self, X: ArrayLike) -> Array:
        """f of each class at each row, (n_rows, n_classes): Eq. (6) plus the offset. Zero is the separating plane."""
        return self._map(X, self._predictor.margins)

    @lazy_on_dask
    def decision_function(self, X: ArrayLike) -> Array:
        """Calibrated scores (n_rows, n_classes), of which the largest is the answer; with two classes (n_rows,).

        Under Platt scaling they are the log-odds A_c f_c + B_c, else logits; of two classes they are those of the
        second, above zero where it is the answer. The bare f_c are given by `margins`.
        """
        scores = self._map(X, self._predictor.scores)
        return self._settings().answers.of_two(scores) if len(self.classes_) == 2 else scores

    @lazy_on_dask
    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each class at each row, (n_rows, n_classes)."""
        return self._settings().answers.probabilities(self._map(X, self._predictor.scores))

    @lazy_on_dask
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of each row, (n_rows,), by the fitted planes, whatever the other rows are."""
        return np.asarray(self.classes_[self._map(X, self._predictor.scores).argmax(axis=1)])

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy of `predict` on the labelled rows of ``X`` (n_rows, n_features); ``y`` marks gaps as in `fit`."""
        from marginshot.classifier.model_selection import labelled_accuracy  # imports scikit-learn's metrics

        return labelled_accuracy(self, X, y, sample_weight)

    def _map(self, X: Any, of_rows: Callable[[NDArray[np.floating]], Array]) -> Array:
        """Apply ``of_rows`` to checked rows, block by block: (n_rows, n_classes)."""
        table = open_table(self, X, reset=False)
        values = np.empty((table.shape[0], len(self.classes_)))
        with limit_threads(self.n_jobs):
            # column_sums raises where X is not finite.
            map_blocks(table, lambda strip: of_rows(widened(strip)), values, check=column_sums)
        return values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write planes, mean, classes and settings to an ``.npz`` file without pickle, for `load`."""
        check_is_fitted(self)
        persistence.save(self, path)

    @classmethod
    def from_preset(cls, preset: PresetOption, **parameters: Any) -> Self:
        """An unfitted classifier with the parameters of a preset, one of `PRESETS`, and any others given here.

        Examples
        --------
        >>> TransductiveMaxMarginClassifier.from_preset("balanced", lambda1=0.1)
        TransductiveMaxMarginClassifier(lambda1=0.1, meet_prior=True, prior='uniform')
        """
        return cls(**(preset_parameters(preset) | parameters))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator written by `save`; it predicts as before, and has no ``transduction_``."""
        return persistence.load(cls, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_predictor")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags

    def _warn_unconverged(self, path: Path, settings: Settings) -> None:
        tolerances = stage_tolerances(settings.tol, len(settings.stages))
        missed = np.argwhere(~(path.gradient_norm <= tolerances))  # NaN has not converged
        if len(missed):
            c, stage = missed[0]
            others = f" Nor did {len(missed) - 1} other stages of {path.gradient_norm.size}." if len(missed) > 1 else ""
            warn_user(
                f"Class {self.classes_[c]} did not converge at lambda2={settings.stages[stage]:g}: gradient norm "
                f"{path.gradient_norm[c, stage]:.2g} > {tolerances[stage]:g} after {path.n_iter[c, stage]} iterations."
                f"{others} Raise max_iter (now {settings.max_iter}) or tol.",
                ConvergenceWarning,
            )
