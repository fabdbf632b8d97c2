"""Few-shot tasks drawn from a feature bank; task i depends on the seed and on i only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.data.features import FeatureBank
from marginshot.data.table import FeatureTable

# Streams of one seed that must not overlap, by the last word of Philox's counter. Attempt k at a task's shares is
# stream _SHARES + k, so that a redrawn task still depends on (seed, i) alone.
_CLASSES, _ROWS, _PRESENT, _SHARES = 0, 1, 2, 3

# Attempts at class shares that fit the class sizes before giving up.
_MAX_REDRAWS = 1000

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class SharesDoNotFitError(ValueError):
    """No draw of the class shares of a task fits the sizes of its classes."""


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The shape of a task.

    Parameters
    ----------
    n_way : int, default=5
        Classes per task.
    n_shot : int or tuple of int, default=1
        Support examples per class; a tuple of ``n_way`` numbers gives the classes of a task unequal shots. Classes are
        drawn in random order, so which class gets which number is random. With 0 the embedded class names of the bank
        are the support.
    n_query_per_class : int, default=15
        Queries per class, on average where ``dirichlet`` is given.
    dirichlet : float, optional
        Unbalanced queries: their total stays, the share of each class is drawn from a symmetric Dirichlet
        distribution with this parameter (2 with 75 queries is alpha-TIM's protocol).
    present : int, optional
        Only this many of the ``n_way`` classes, drawn at random, occur among the queries (PADDLE's protocol). The
        total is then ``present * n_query_per_class``.
    foreign : int, default=0
        Further classes, without support, whose rows are among the queries: ``n_query_per_class`` of each (open-set
        protocol). Their label is −1.
    """

    n_way: int = 5
    n_shot: int | tuple[int, ...] = 1
    n_query_per_class: int = 15
    dirichlet: float | None = None
    present: int | None = None
    foreign: int = 0

    def __post_init__(self) -> None:
        for name, low in (("n_way", 2), ("n_query_per_class", 1), ("foreign", 0)):
            if getattr(self, name) < low:
                raise ValueError(f"{name} must be at least {low}; got {getattr(self, name)}.")
        if isinstance(self.n_shot, tuple) and len(self.n_shot) != self.n_way:
            raise ValueError(
                f"Unequal shots need one number per class: {self.n_way} for n_way={self.n_way}; got {self.n_shot}."
            )
        if min(self.shots) < (0 if self.n_shot == 0 else 1):
            raise ValueError(f"n_shot must be at least 1, or 0 for class names as the support; got {self.n_shot}.")
        if self.dirichlet is not None and not 0 < self.dirichlet < np.inf:
            raise ValueError(f"dirichlet must be a positive number; got {self.dirichlet}.")
        if self.present is not None and not 1 <= self.present <= self.n_way:
            raise ValueError(f"present must lie in 1..n_way={self.n_way}; got {self.present}.")

    @property
    def shots(self) -> tuple[int, ...]:
        """Support examples of each of the ``n_way`` classes."""
        return tuple(self.n_shot) if isinstance(self.n_shot, tuple) else (self.n_shot,) * self.n_way

    @property
    def n_support(self) -> int:
        """Rows of the support of a task: its examples, or the names of its classes."""
        return sum(self.shots) or self.n_way

    @property
    def n_query(self) -> int:
        """Queries per task."""
        return self.n_known + self.foreign * self.n_query_per_class

    @property
    def n_known(self) -> int:
        """Queries per task that are of one of its classes."""
        return (self.present or self.n_way) * self.n_query_per_class


@dataclass(frozen=True)
class TaskBatch:
    """Consecutive tasks as read-only arrays, so that no method can change what the next one reads.

    Parameters
    ----------
    table : FeatureTable
        The features that ``support_rows`` and ``query_rows`` are row numbers of.
    support_labels : ndarray of int64 of shape (T, n_support)
        In 0..n_way-1, sorted.
    query_labels : ndarray of int64 of shape (T, n_query)
        −1 for queries of none of the classes, which come last.
    support_rows, query_rows : ndarray of int64 of shape (T, n_support) and (T, n_query)
    redrawn : ndarray of bool of shape (T,)
        Tasks whose class shares were drawn again, because the first asked for more queries than a class has.
    classes : ndarray of int64 of shape (T, n_way)
        Classes of the bank, in the order of the labels.
    beliefs : ndarray of shape (n_rows, n_classes), optional
        The prior of the bank.
    """

    table: FeatureTable
    support_labels: Ints
    query_labels: Ints
    support_rows: Ints
    query_rows: Ints
    redrawn: NDArray[np.bool_]
    classes: Ints
    beliefs: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        for array in (self.support_labels, self.query_labels, self.support_rows, self.query_rows, self.redrawn):
            array.flags.writeable = False

    @cached_property
    def support(self) -> NDArray[np.float32]:
        """Features (T, n_support, D), gathered when first asked for."""
        return self._gather(self.support_rows)

    @cached_property
    def query(self) -> NDArray[np.float32]:
        """Features (T, n_query, D), gathered when first asked for."""
        return self._gather(self.query_rows)

    @cached_property
    def priors(self) -> dict[str, NDArray[np.float32]]:
        """The arguments ``prior`` and ``support_prior`` of a method, where the bank has a prior of these rows."""
        if self.beliefs is None:
            return {}
        rows = {"prior": self.query_rows, "support_prior": self.support_rows}
        # Embedded names come after the rows of the bank, and have no prior.
        known = {name: of for name, of in rows.items() if of.max(initial=-1) < len(self.beliefs)}
        given = {name: self.beliefs[of[:, :, None], self.classes[:, None, :]] for name, of in known.items()}
        for array in given.values():
            array.flags.writeable = False
        return given

    def _gather(self, rows: Ints) -> NDArray[Any]:
        features = self.table.rows[rows]
        features.flags.writeable = False
        return features


class TaskSampler:
    """Draws tasks from a feature bank.

    Random numbers come from the counter-based generator Philox, keyed by the seed. Each task has its own range of
    counters, so a slice of tasks does not depend on earlier draws or on the process.

    Parameters
    ----------
    bank : FeatureBank
    n_way, n_shot, n_query_per_class, dirichlet, present, foreign
        See `TaskSettings`.
    seed : int, default=0
        At least 0.

    Notes
    -----
    With ``dirichlet`` a task may ask one class for more queries than it has. Its shares are then drawn again, and
    `TaskBatch.redrawn` says so; if no draw in a thousand fits, `batch` raises.

    Examples
    --------
    >>> from marginshot.data.features import load_features
    >>> sampler = TaskSampler(load_features("digits"), n_way=5, n_shot=1)
    >>> sampler.batch(0, 100).query.shape
    (100, 75, 64)
    """

    def __init__(
        self,
        bank: FeatureBank,
        *,
        n_way: int = 5,
        n_shot: int | tuple[int, ...] = 1,
        n_query_per_class: int = 15,
        seed: int = 0,
        dirichlet: float | None = None,
        present: int | None = None,
        foreign: int = 0,
    ) -> None:
        self.settings = TaskSettings(
            n_way=n_way,
            n_shot=n_shot,
            n_query_per_class=n_query_per_class,
            dirichlet=dirichlet,
            present=present,
            foreign=foreign,
        )
        if seed < 0:
            raise ValueError(f"seed must be at least 0; got {seed}.")
        if seed >= 2**128:
            raise ValueError(f"seed must be less than 2**128; got {seed}.")
        check_has_support(bank, self.settings.shots)
        self.seed = seed
        # The table, not the bank: worker processes do not need the names of rows.
        self.table = bank.table
        self._beliefs = bank.prior
        self._class_names = bank.classes
        self._sizes = np.bincount(bank.y, minlength=len(bank.classes))
        self._rows = np.argsort(bank.y, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])
        self._check_sizes(bank.source)

    def _check_sizes(self, source: str) -> None:
        """Raise if a task could need more rows than a class has; shrinking the task would change the protocol."""
        settings = self.settings
        if settings.n_way > len(self._class_names):
            raise ValueError(
                f"n_way={settings.n_way} is more than the {len(self._class_names)} classes of {source}. Lower n_way."
            )
        if settings.n_way + settings.foreign > len(self._class_names):
            raise ValueError(
                f"n_way={settings.n_way} and {settings.foreign} foreign classes are more than the "
                f"{len(self._class_names)} classes of {source}. Lower one of them."
            )
        most_shots = max(settings.shots)
        needed = most_shots + settings.n_query_per_class
        smallest = int(self._sizes.argmin())
        if self._sizes[smallest] < needed:
            raise ValueError(
                f"Class {self._class_names[smallest]!r} of {source} has {self._sizes[smallest]} examples but "
                f"{most_shots} shots + {settings.n_query_per_class} queries need {needed}. "
                "Lower the queries or the shots, or drop the class."
            )

    def batch(self, start: int, stop: int) -> TaskBatch:
        """Tasks ``start`` to ``stop - 1``."""
        if not 0 <= start <= stop:
            raise ValueError(f"A batch needs 0 <= start <= stop; got {start} and {stop}.")
        settings, every = self.settings, self._draw_all_classes(start, stop)
        classes = every[:, : settings.n_way]
        counts, redrawn = self._draw_query_counts(start, stop, classes)
        counts = np.pad(counts, ((0, 0), (0, settings.foreign)), constant_values=settings.n_query_per_class)
        shots = np.pad(settings.shots, (0, settings.foreign))
        picks = self._draw_picks(start, stop, every, int((shots + counts.max(axis=0, initial=0)).max()))

        support_labels, support_rows = self._draw_support(picks, classes)
        ends = counts.cumsum(axis=1)
        place = np.arange(settings.n_query)
        query_labels = (ends[:, None, :] <= place[None, :, None]).sum(axis=2)
        query_place = place - np.take_along_axis(ends - counts, query_labels, axis=1) + shots[query_labels]

        task = np.arange(stop - start)[:, None]
        query_rows = picks[task, query_labels, query_place]
        query_labels[query_labels >= settings.n_way] = -1
        return TaskBatch(
            self.table, support_labels, query_labels, support_rows, query_rows, redrawn, classes, self._beliefs
        )

    def _draw_support(self, picks: Ints, classes: Ints) -> tuple[Ints, Ints]:
        """Labels and rows of the support, (T, n_support): the first picks of each class, or the class names."""
        shots = self.settings.shots
        if not any(shots):
            return np.tile(np.arange(len(shots)), (len(classes), 1)), len(self._rows) + classes
        labels = np.tile(np.repeat(np.arange(len(shots)), shots), (len(classes), 1))
        place = np.concatenate([np.arange(n) for n in shots])
        return labels, picks[np.arange(len(classes))[:, None], labels, place]

    def _uniforms(self, stream: int, start: int, stop: int, n_draws: int) -> Floats:
        """Numbers in [0, 1) of shape (stop - start, n_draws), each row from its task's own counters."""
        blocks = -(-n_draws // 4)  # Philox makes four numbers per count
        first = start * blocks
        counter = np.array([first & 0xFFFFFFFFFFFFFFFF, first >> 64, 0, stream], dtype=np.uint64)
        raw = np.random.Philox(key=self.seed, counter=counter).random_raw((stop - start) * blocks * 4)
        mantissas = raw.reshape(stop - start, blocks * 4)[:, :n_draws] >> np.uint64(11)
        return mantissas.astype(np.float64) * 2.0**-53

    def draw_classes(self, start: int, stop: int) -> Ints:
        """Classes of tasks ``start`` to ``stop - 1``, (T, n_way): places in the classes of the bank."""
        return self._draw_all_classes(start, stop)[:, : self.settings.n_way]

    def _draw_all_classes(self, start: int, stop: int) -> Ints:
        """The classes of tasks, and then the foreign ones, (T, n_way + foreign)."""
        uniforms = self._uniforms(_CLASSES, start, stop, self.settings.n_way + self.settings.foreign)
        return sample_without_replacement(uniforms, np.full(stop - start, len(self._class_names)))

    def _draw_picks(self, start: int, stop: int, classes: Ints, depth: int) -> Ints:
        """Bank rows of each class of each task in random order, (T, n_way, depth): first the support, then queries."""
        n_drawn = classes.shape[1]
        # The counters of a task must not depend on its batch, so every task uses as many as the deepest one.
        room = min(max(self.settings.shots) + self.settings.n_query, int(self._sizes.max()))
        uniforms = self._uniforms(_ROWS, start, stop, n_drawn * room).reshape(-1, room)[:, :depth]
        places = sample_without_replacement(uniforms, self._sizes[classes].ravel())
        offsets = self._starts[classes].ravel()[:, None]
        # In a class smaller than the depth the last columns mean nothing; they are never used.
        rows = self._rows[np.minimum(offsets + places, len(self._rows) - 1)]
        return rows.reshape(stop - start, n_drawn, uniforms.shape[1])

    def _draw_query_counts(self, start: int, stop: int, classes: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Queries of each class of each task, (T, n_way), and which tasks were drawn more than once."""
        settings = self.settings
        present = self._draw_present(start, stop)
        redrawn = np.zeros(stop - start, dtype=bool)
        if settings.dirichlet is None:
            return present * settings.n_query_per_class, redrawn
        room = self._sizes[classes] - np.array(settings.shots)
        counts = self._draw_shares(_SHARES, start, stop, present)
        for attempt in range(1, _MAX_REDRAWS + 1):
            unfit = np.flatnonzero((counts > room).any(axis=1))
            if not len(unfit):
                return counts, redrawn
            redrawn[unfit] = True
            for task in unfit:
                i = start + int(task)
                counts[task] = self._draw_shares(_SHARES + attempt, i, i + 1, present[task : task + 1])[0]
        worst = int(classes[unfit[0], (counts - room)[unfit[0]].argmax()])
        raise SharesDoNotFitError(
            f"Class {self._class_names[worst]!r} has {self._sizes[worst]} examples, too few for {settings.n_known} "
            f"queries shared out with dirichlet={settings.dirichlet}: {_MAX_REDRAWS} draws did not fit. "
            "Lower the queries or raise the Dirichlet parameter."
        )

    def _draw_present(self, start: int, stop: int) -> Ints:
        """1 where a class occurs among the queries, else 0, (T, n_way)."""
        n_way, present = self.settings.n_way, self.settings.present
        if present is None:
            return np.ones((stop - start, n_way), dtype=np.int64)
        uniforms = self._uniforms(_PRESENT, start, stop, present)
        mask = np.zeros((stop - start, n_way), dtype=np.int64)
        np.put_along_axis(mask, sample_without_replacement(uniforms, np.full(stop - start, n_way)), 1, axis=1)
        return mask

    def _draw_shares(self, stream: int, start: int, stop: int, present: Ints) -> Ints:
        """Queries shared out by a symmetric Dirichlet over the classes present, (T, n_way)."""
        from scipy.special import gammaincinv

        settings = self.settings
        uniforms = self._uniforms(stream, start, stop, 2 * settings.n_way)
        # A Dirichlet is a normalised row of Gamma(a) numbers, and Gamma(a) is Gamma(a + 1) times U^(1/a). In
        # logarithms, because for a small a most of them underflow.
        alpha = float(settings.dirichlet or 0)
        tiny = 2.0**-54
        log_gamma = np.log(gammaincinv(alpha + 1, uniforms[:, : settings.n_way] + tiny))
        log_gamma += np.log(uniforms[:, settings.n_way :] + tiny) / alpha
        log_gamma[present == 0] = -np.inf
        shares = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return apportion(shares, settings.n_known)


def check_has_support(bank: FeatureBank, shots: Sequence[int]) -> None:
    """Raise where tasks without shots would need class names that the bank has not."""
    if not all(shots) and bank.names is None:
        raise ValueError(
            f"{bank.source} has no embedded class names, which tasks without shots need: give it an array `names` of "
            "shape (classes, features), embedded by the same network."
        )


def sample_without_replacement(uniforms: Floats, sizes: Ints) -> Ints:
    """Distinct numbers in random order: row r holds some of 0..sizes[r]-1.

    This is a Fisher-Yates shuffle of many rows at once. Step j swaps places j and ``swap[j]``; its pick is found by
    following the earlier swaps backwards. The shuffled rows are never stored, so the cost does not depend on ``sizes``.

    Parameters
    ----------
    uniforms : ndarray of shape (n_rows, k)
        In [0, 1).
    sizes : ndarray of int of shape (n_rows,)
        Columns from ``sizes[r]`` on mean nothing in row r.

    Returns
    -------
    ndarray of int64 of shape (n_rows, k)
    """
    k = uniforms.shape[1]
    step = np.arange(k)
    left = np.maximum(sizes[:, None] - step, 1)
    swap = step + (uniforms * left).astype(np.int64)
    # Steps as rows: each pass below then runs over contiguous memory.
    swap = np.ascontiguousarray(swap.T)
    picks = swap.copy()
    for j in range(k - 2, -1, -1):
        later = picks[j + 1 :]
        later[later == swap[j]] = j
    return picks.T


def apportion(shares: Floats, total: int) -> Ints:
    """Whole numbers that sum to ``total``, nearest to ``shares * total`` (largest remainder); (T, N) -> (T, N)."""
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    missing = total - counts.sum(axis=1)
    by_remainder = np.argsort(counts - exact, axis=1, kind="stable")
    rank = np.empty_like(by_remainder)
    np.put_along_axis(rank, by_remainder, np.arange(shares.shape[1])[None, :], axis=1)
    counts[rank < missing[:, None]] += 1
    return counts


def spread_shots(low: int, high: int, n_way: int) -> tuple[int, ...]:
    """Unequal shots for ``n_way`` classes, evenly spread from ``low`` to ``high``.

    Examples
    --------
    >>> spread_shots(1, 5, 5)
    (1, 2, 3, 4, 5)
    """
    shots: Sequence[float] = np.linspace(low, high, n_way).tolist()
    return tuple(round(shot) for shot in shots)
