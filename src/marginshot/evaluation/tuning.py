"""Searching hyper-parameters on validation features (the paper: tuned on validation classes, then fixed)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from marginshot.evaluation.protocol import evaluate
from marginshot.evaluation.run import Run

if TYPE_CHECKING:
    from marginshot.methods.base import Method

# Log-uniform ranges, about a factor of 30 to both sides of the paper's values. gamma1 is left out: it only says how
# closely the smoothed hinge follows the hinge.
_RANGES = {"lambda1": (1e-3, 1.0), "gamma2": (0.25, 16.0), "last_lambda2": (0.1, 10.0)}


@dataclass(frozen=True, kw_only=True)
class TuningResult:
    """The best settings of a search, and their accuracy.

    Parameters
    ----------
    settings : dict
        The best settings of the method.
    accuracy, default_accuracy : float
        On the validation tasks, with the best settings and with the ones the search started from.
    n_trials : int
    complete : bool
        False where the search was interrupted.
    """

    settings: dict[str, Any]
    accuracy: float
    default_accuracy: float
    n_trials: int
    complete: bool


def searched(method: Method) -> list[str]:
    """Hyper-parameters of a method that the search knows: those of the maximum-margin family."""
    names = {item.name for item in fields(method)}  # type: ignore[arg-type]
    if not {"lambda1", "lambda2", "gamma2"} <= names:
        return []
    return list(_RANGES) if _last_lambda2(method) > 0 else ["lambda1"]


def tune(
    run: Run, n_trials: int, *, n_jobs: int | None = None, on_progress: Callable[[int, int], None] | None = None
) -> TuningResult:
    """Search the settings of the one method of ``run`` for the best mean accuracy over its blocks.

    The first trial is the method as given, so that the result is never worse on these tasks. Ctrl-C ends the search
    with the best settings so far.
    """
    import optuna

    (label, method), *others = run.methods.items()
    names = searched(method)
    if others or not names:
        raise ValueError(f"Only one method of the maximum-margin family can be tuned; got {', '.join(run.methods)}.")
    if n_trials < 1:
        raise ValueError(f"A search needs at least 1 trial; got {n_trials}.")
    scores: list[float] = []

    def objective(trial: Any) -> float:
        values = {name: trial.suggest_float(name, *_RANGES[name], log=True) for name in names}
        changed = replace(run, methods={label: _with_values(method, values)})
        result = evaluate(changed, n_jobs=n_jobs)
        scores.append(float(np.mean([entry.accuracy for entry in result.results])))
        if on_progress:
            on_progress(len(scores), n_trials)
        return scores[-1]

    optuna.logging.set_verbosity(optuna.logging.ERROR)  # Optuna warns of the trial that Ctrl-C ends
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=run.seed))
    study.enqueue_trial(_values(method, names))
    try:
        study.optimize(objective, n_trials=n_trials)
    except KeyboardInterrupt:
        if not scores:
            raise
    best = _with_values(method, study.best_params)
    return TuningResult(
        settings={name: getattr(best, name) for name in ("lambda1", "lambda2", "gamma2")},
        accuracy=study.best_value,
        default_accuracy=scores[0],
        n_trials=len(scores),
        complete=len(scores) == n_trials,
    )


def _last_lambda2(method: Any) -> float:
    return float(method.lambda2[-1])


def _values(method: Any, names: list[str]) -> dict[str, float]:
    known = {name: _last_lambda2(method) if name == "last_lambda2" else getattr(method, name) for name in names}
    return {name: float(np.clip(value, *_RANGES[name])) for name, value in known.items()}


def _with_values(method: Any, values: Mapping[str, float]) -> Any:
    # Three digits: more would be noise of the validation tasks.
    rounded = {name: float(f"{value:.3g}") for name, value in values.items()}
    last = rounded.pop("last_lambda2", None)
    if last is not None:
        rounded["lambda2"] = (*(weight for weight in method.lambda2[:-1] if weight < last), last)  # type: ignore[assignment]
    return replace(method, **rounded)


def write_toml(label: str, result: TuningResult, facts: Mapping[str, Any]) -> str:
    """A config file for ``marginshot evaluate --config``, with what it was tuned on."""
    lines = [
        "# marginshot-output: written by `marginshot tune`; use it with `marginshot evaluate --config`.",
        "[tuned]",
    ]
    lines += [f"{name} = {_toml(value)}" for name, value in facts.items()]
    lines += ["", f"[methods.{label}]", *(f"{name} = {_toml(value)}" for name, value in result.settings.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    # JSON's text, numbers and booleans are TOML's.
    return json.dumps(value, ensure_ascii=False)
