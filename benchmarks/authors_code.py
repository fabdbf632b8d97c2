"""The authors' own code, called on tasks of ours: each function gives the accuracy of every task.

Nothing of that code is in this repository. `benchmarks/authors.py` looks for clones of the repositories in `SOURCES`
in one folder. What their scripts do around the method (arguments, log files, CUDA, progress bars) is replaced here;
what computes an answer is theirs, with the settings that their configuration files or scripts name.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import numpy as np
import scipy.sparse.linalg
import torch
from numpy.typing import NDArray
from torch.nn import functional

Accuracies = NDArray[np.float64]

#: Folder of a clone -> where it comes from, and the commit that the table in the documentation was made with.
SOURCES = {
    "LaplacianShot": ("github.com/imtiazziko/LaplacianShot", "5de2612"),
    "TIM": ("github.com/mboudiaf/TIM", "c324ca8"),
    "Realistic_Transductive_Few_Shot": ("github.com/oveilleux/Realistic_Transductive_Few_Shot", "1ae7845"),
    "PT-MAP": ("github.com/yhu01/PT-MAP", "134b940"),
    "PADDLE": ("github.com/SegoleneMartin/PADDLE", "ab59a2f"),
    "StatA": ("github.com/MaxZanella/StatA", "eea8637"),
    "transductive-CLIP": ("github.com/SegoleneMartin/transductive-CLIP", "9066ad3"),
    "UNEM-Transductive": ("github.com/ZhouLong0/UNEM-Transductive", "090fe65"),
}


@dataclass(frozen=True)
class Tasks:
    """Tasks with equal shots, the support sorted by class: (T, n, D), (T, n), (T, m, D), (T, m)."""

    support: NDArray[np.float32]
    labels: NDArray[np.int64]
    query: NDArray[np.float32]
    truth: NDArray[np.int64]

    @property
    def n_way(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def n_shot(self) -> int:
        return self.labels.shape[1] // self.n_way

    def tensors(self) -> dict[str, torch.Tensor]:
        """Arguments of a task in TIM's code and in what was built on it; copies, for some of it works in place."""
        arrays = {"support": self.support, "query": self.query, "y_s": self.labels, "y_q": self.truth}
        return {name: torch.tensor(array) for name, array in arrays.items()}

    def shots_first(self) -> NDArray[np.float32]:
        """The support with the first example of every class first, as some of the code expects it."""
        order = np.arange(self.labels.shape[1]).reshape(self.n_way, self.n_shot).T.ravel()
        return self.support[:, order]


@contextmanager
def importing(folder: Path, **stand_ins: Any) -> Iterator[None]:
    """Import from ``folder`` first, with stand-ins for modules of its scripts; afterwards everything as before."""
    before = dict(sys.modules)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("src", "utils", "models", "datasets")]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.modules.clear()
        sys.modules.update(before)


def silence(module: ModuleType) -> None:
    """No progress bars, no log files."""
    if hasattr(module, "tqdm"):
        module.tqdm = lambda steps, **_: steps
    if hasattr(module, "Logger"):
        module.Logger = lambda *_: SimpleNamespace(info=logging.debug, del_logger=lambda: None)


def load(folder: Path, name: str, **stand_ins: Any) -> ModuleType:
    with importing(folder, **stand_ins):
        module = importlib.import_module(name)
    silence(module)
    return module


def laplacianshot(clones: Path, tasks: Tasks, *, rectify: bool) -> Accuracies:
    """`metric_class_type` of train_lshot.py: CL2N, λ = 0.7, knn = 3; the mean subtracted is the task's, as in ours."""
    parts = {name: ModuleType(name) for name in ("utils", "datasets", "models")}
    parts["utils"].configuration = None  # type: ignore[attr-defined]
    code = load(clones / "LaplacianShot" / "src", "train_lshot", **parts)
    code.args = SimpleNamespace(
        proto_rect=rectify, meta_val_way=tasks.n_way, lshot=True, lmd=0.7, knn=3, num_NN=1, plot_converge=False
    )
    accuracies = []
    with patch.object(np, "float", float, create=True):  # a name that NumPy has dropped since
        for support, labels, query, truth in zip(tasks.support, tasks.labels, tasks.query, tasks.truth, strict=True):
            mean = np.concatenate([support, query]).mean(axis=0)
            accuracies.append(code.metric_class_type(support, query, labels, truth, tasks.n_shot, mean, "CL2N"))
    return np.array(accuracies)


class Ingredient:
    """Stands in for Sacred's: settings by name, filled in where a call leaves them out."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings

    def config(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def capture(self, function: Callable[..., Any]) -> Callable[..., Any]:
        names = set(signature(function).parameters) & set(self.settings)

        @wraps(function)
        def filled(*args: Any, **given: Any) -> Any:
            return function(*args, **({name: self.settings[name] for name in names} | given))

        return filled


def tim_gd(clones: Path, tasks: Tasks) -> Accuracies:
    """`TIM_GD` of src/tim.py with its default settings and the 1,000 steps of scripts/evaluate/tim_gd."""
    settings = {"temp": 15, "loss_weights": [0.1, 1.0, 0.1], "lr": 1e-4, "iter": 1000, "alpha": 1.0}
    sacred = ModuleType("sacred")
    sacred.Ingredient = lambda _: Ingredient(settings)  # type: ignore[attr-defined]
    method = load(clones / "TIM", "src.tim", sacred=sacred).TIM_GD(model=torch.nn.Identity())
    task = tasks.tensors()
    for name in ("support", "query"):
        task[name] = functional.normalize(task[name], dim=2)
    method.compute_lambda(support=task["support"], query=task["query"], y_s=task["y_s"])
    method.init_weights(**task)
    method.run_adaptation(**task, callback=None)
    return as_shares(method.get_logs()["acc"][:, -1])


def alpha_tim(clones: Path, tasks: Tasks) -> Accuracies:
    """`ALPHA_TIM` with config/dirichlet/methods_config/alpha_tim.yaml, on features already extracted."""
    code = load(clones / "Realistic_Transductive_Few_Shot", "src.methods.tim")
    code.extract_features = lambda _, support, query: (support, query)
    settings = SimpleNamespace(
        temp=15,
        loss_weights=[1.0, 1.0, 1.0],
        lr_alpha_tim=1e-4,
        iter=1000,
        entropies=["Shannon", "Alpha", "Alpha"],
        alpha_values=[5.0, 5.0, 5.0],
        use_tuned_alpha_values=True,
    )
    method = code.ALPHA_TIM(torch.nn.Identity(), "cpu", "", settings)
    return as_shares(method.run_task(as_dictionary(tasks), tasks.n_shot)["acc"][:, -1])


def bd_cspn(clones: Path, tasks: Tasks) -> Accuracies:
    """`BDCSPN` of alpha-TIM's authors with config/*/methods_config/bdcspn.yaml; the mean subtracted is the task's."""
    code = load(clones / "Realistic_Transductive_Few_Shot", "src.methods.bdcspn")
    settings = SimpleNamespace(norm_type="CL2N", n_ways=tasks.n_way, num_NN=1, batch_size=len(tasks.labels))
    method = code.BDCSPN(None, "cpu", "", settings)
    mean = np.concatenate([tasks.support, tasks.query], axis=1).mean(axis=1, keepdims=True)
    rows = (torch.tensor(tasks.shots_first()), torch.tensor(tasks.query))
    support, query = (rows.numpy() for rows in method.normalization(*rows, torch.tensor(mean)))
    prototypes = method.proto_rectification(support=support, query=query, shot=tasks.n_shot)
    method.run_prediction(prototypes, query, np.arange(tasks.n_way), tasks.truth, tasks.n_shot)
    return as_shares(method.get_logs()["acc"][:, -1])


def pt_map(clones: Path, tasks: Tasks) -> Accuracies:
    """test_standard.py: β = 0.5, λ = 10, α = 0.2, 20 rounds; for features of one sign, as its power asks for."""
    code = load(clones / "PT-MAP", "test_standard")
    n_tasks, n_support = tasks.labels.shape
    n_query = tasks.query.shape[1]
    rows = torch.tensor(np.concatenate([tasks.shots_first(), tasks.query], axis=1), dtype=torch.float64)
    first = np.tile(np.arange(tasks.n_way), (n_tasks, tasks.n_shot))
    vars(code).update(n_runs=n_tasks, n_ways=tasks.n_way, n_shot=tasks.n_shot, n_queries=n_query // tasks.n_way)
    vars(code).update(n_lsamples=n_support, n_usamples=n_query, n_samples=n_support + n_query)
    code.labels = torch.tensor(np.concatenate([first, tasks.truth], axis=1))
    with patch.object(torch, "qr", torch.linalg.qr):  # a name that torch has dropped since
        prepared = code.scaleEachUnitaryDatas(code.QRreduction(torch.pow(rows + 1e-6, 0.5)))
    code.ndatas = code.centerDatas(prepared)
    code.n_nfeat = code.ndatas.size(2)
    with patch.object(torch.Tensor, "cuda", lambda tensor: tensor):
        model, rounds = code.GaussianModel(tasks.n_way, 10), code.MAP(0.2)
        model.initFromLabelledDatas()
        rounds.loop(model, n_epochs=20)
        answers = model.getProbas().argmax(dim=2)[:, n_support:].numpy()
    return (answers == tasks.truth).mean(axis=1)


def paddle(clones: Path, tasks: Tasks) -> Accuracies:
    """`PADDLE` with config/mini/resnet18/methods_config/paddle.yaml: λ = 75, 100 rounds, each feature rescaled."""
    code = load(clones / "PADDLE", "src.methods.paddle")
    method = code.PADDLE(None, "cpu", "", SimpleNamespace(iter=100, alpha=75))
    return as_shares(method.run_task(as_dictionary(tasks), tasks.n_shot)["acc"][:, -1])


def unem(clones: Path, tasks: Tasks, scale: float, balance: Any, softness: Any) -> Accuracies:
    """`U_Paddle_EMBT` with given values of its layers, on rows centred on the task's mean and of unit length."""
    code = load(clones / "UNEM-Transductive" / "UNEM_Gaussian", "src.methods.U_Paddle_embt")
    real_tensor = torch.tensor
    with patch.object(torch, "tensor", lambda value, **_: real_tensor(value)):  # it asks for CUDA
        method = code.U_Paddle_EMBT(len(balance), "cpu", "", diff_gamma_layers=True)
    with torch.no_grad():
        method.t1.copy_(softplus_inverse(scale))
        for layer, (weight, temperature) in enumerate(zip(balance, softness, strict=True)):
            method.gamma[layer].copy_(softplus_inverse(weight))
            method.t2[layer].copy_(softplus_inverse(temperature - 1.0))
        task = tasks.tensors()
        both = torch.cat([task["support"], task["query"]], dim=1)
        rows = functional.normalize(both - both.mean(dim=1, keepdim=True), dim=2)
        n_support = tasks.labels.shape[1]
        answers = method(rows[:, :n_support], task["y_s"], rows[:, n_support:], "cpu").argmax(dim=2).numpy()
    return (answers == tasks.truth).mean(axis=1)


def for_names(clones: Path, tasks: Tasks, solver: str, **settings: Any) -> Accuracies:
    """A solver of StatA's repository with the settings of its main.py; the means of the support stand for the names."""
    stand_ins = {"clip": ModuleType("clip"), **cupy_on_numpy()}
    with importing(clones / "StatA" / "solvers", **stand_ins), patch.object(torch.Tensor, "cuda", lambda rows: rows):
        solve = getattr(importlib.import_module(solver), f"{solver}_solver")
        accuracies = []
        for support, query, truth in zip(tasks.support, tasks.query, tasks.truth, strict=True):
            rows, names = (
                unit_rows(query),
                unit_rows(unit_rows(support).view(tasks.n_way, tasks.n_shot, -1).mean(dim=1)),
            )
            with torch.no_grad():
                _, answers = solve(rows, torch.tensor(truth), names.T[None], **settings)
            accuracies.append((answers.argmax(dim=1).numpy() == truth).mean())
    return np.array(accuracies)


def unit_rows(rows: Any) -> torch.Tensor:
    return functional.normalize(torch.as_tensor(rows), dim=1)


def cupy_on_numpy() -> dict[str, ModuleType]:
    """What ZLaP's code needs of cupy and faiss, on NumPy and SciPy."""

    class GPUArray(np.ndarray):
        def get(self) -> NDArray[Any]:
            return np.asarray(self)

    def search(_: Any, queries: Any, rows: Any, k: int, metric: Any) -> tuple[Any, Any]:
        alike = queries @ rows.T
        nearest = np.argsort(-alike, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(alike, nearest, axis=1), nearest

    def conjugate_gradients(system: Any, target: Any, tol: float, maxiter: int) -> Any:
        return scipy.sparse.linalg.cg(system, target, rtol=tol, maxiter=maxiter)

    cupy, faiss, cupyx, its_scipy, sparse = map(
        ModuleType, ("cupy", "faiss", "cupyx", "cupyx.scipy", "cupyx.scipy.sparse")
    )
    vars(cupy).update(
        {name: getattr(np, name) for name in ("sqrt", "isnan", "isinf", "diff", "asnumpy") if hasattr(np, name)}
    )
    vars(cupy).update(array=np.asarray, zeros=lambda shape: np.zeros(shape).view(GPUArray))
    vars(faiss).update(StandardGpuResources=MagicMock, knn_gpu=search, METRIC_INNER_PRODUCT=0)
    vars(sparse).update(csr_matrix=scipy.sparse.csr_matrix, diags=scipy.sparse.diags, eye=scipy.sparse.eye)
    vars(sparse).update(linalg=SimpleNamespace(cg=conjugate_gradients))
    return {"cupy": cupy, "faiss": faiss, "cupyx": cupyx, "cupyx.scipy": its_scipy, "cupyx.scipy.sparse": sparse}


class Steps(list[int]):
    """Stands in for a progress bar."""

    def set_description(self, _: str) -> None: ...


def em_dirichlet(clones: Path, tasks: Tasks, *, hard: bool) -> Accuracies:
    """`EM_DIRICHLET` or `HARD_EM_DIRICHLET` with their configuration files, all classes present; features at T = 30."""
    name = "hard_em_dirichlet" if hard else "em_dirichlet"
    code = load(clones / "transductive-CLIP", f"src.methods.few_shot.{name}", clip=ModuleType("clip"))
    code.tqdm = Steps
    n_query = tasks.query.shape[1]
    settings = SimpleNamespace(iter=10 if hard else 20, iter_mm=1000, num_classes_test=tasks.n_way, k_eff=tasks.n_way)
    vars(settings).update(n_query=n_query, T=30, use_softmax_feature=True)
    accuracies = []
    for one in range(len(tasks.labels)):
        support, query = unit_rows(tasks.support[one]), unit_rows(tasks.query[one])
        names = unit_rows(support.view(tasks.n_way, tasks.n_shot, -1).mean(dim=1))
        shares = [(30 * rows @ names.T).softmax(dim=1)[None] for rows in (support, query)]
        labels = [torch.tensor(labels[one])[None, :, None] for labels in (tasks.labels, tasks.truth)]
        task = dict(zip(("x_s", "x_q", "y_s", "y_q"), (*shares, *labels), strict=True))
        method = getattr(code, name.upper())(None, "cpu", "", settings)
        accuracies.append(float(method.run_task(task, tasks.n_shot)["acc"][0, -1]))
    return np.array(accuracies)


def softplus_inverse(value: float) -> torch.Tensor:
    return torch.log(torch.expm1(torch.tensor(float(value), dtype=torch.float64)))


def as_dictionary(tasks: Tasks) -> dict[str, torch.Tensor]:
    """A task of alpha-TIM's and PADDLE's code."""
    task = tasks.tensors()
    return {"x_s": task["support"], "x_q": task["query"], "y_s": task["y_s"][..., None], "y_q": task["y_q"][..., None]}


def as_shares(accuracies: Any) -> Accuracies:
    return np.asarray(accuracies, dtype=np.float64)
