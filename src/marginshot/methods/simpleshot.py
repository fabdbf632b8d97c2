"""SimpleShot in its three flavours: nearest class mean after centring and scaling, after scaling, after nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from marginshot.methods._batched import class_means, inner_products
from marginshot.methods.base import Tasks, TaskwiseMethod, register
from marginshot.methods.protonet import minus_distances_to_means
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre, l2_normalize

_REFERENCE = (
    "Wang, Chao, Weinberger and van der Maaten, "
    '"SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot Learning", arXiv:1911.04623, 2019'
)


@register
@dataclass(frozen=True, kw_only=True)
class SimpleShot(TaskwiseMethod):
    """Nearest class mean by cosine, after centring and scaling to unit length (CL2N). Inductive.

    Wang et al., "SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot Learning", 2019.

    The paper centres on the mean of the base classes; give it as ``centre`` when you have it. The default is the mean
    of the task's support and queries, as in FS-MMC and FS-TMMC. Through that mean, and only through it, the answer to
    one query depends on the others; ``centre="support"`` avoids it.

    Differs from the authors' code: class means are compared by cosine, as EasyFSL does, not by Euclidean distance; at
    one shot both agree. EasyFSL centres on a vector given by the user, or not at all: that is ``centre="none"`` here.

    Parameters
    ----------
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row first.
    """

    name: ClassVar[str] = "simpleshot"
    title: ClassVar[str] = "SimpleShot (CL2N)"
    reference: ClassVar[str] = _REFERENCE
    transductive: ClassVar[bool] = False

    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_centre(self.centre)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        support, query = centre_and_normalize(tasks.support, tasks.query, self.centre)
        return _cosines_to_means(support, tasks, query)


@register
@dataclass(frozen=True, kw_only=True)
class SimpleShotL2N(TaskwiseMethod):
    """Nearest class mean by cosine, after scaling to unit length (L2N). Inductive.

    Wang et al., "SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot Learning", 2019.
    Compares by cosine like ``SimpleShot``.
    """

    name: ClassVar[str] = "simpleshot-l2n"
    title: ClassVar[str] = "SimpleShot (L2N)"
    reference: ClassVar[str] = _REFERENCE
    transductive: ClassVar[bool] = False

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        return _cosines_to_means(l2_normalize(tasks.support), tasks, l2_normalize(tasks.query))


@register
@dataclass(frozen=True, kw_only=True)
class SimpleShotUN(TaskwiseMethod):
    """Nearest class mean by Euclidean distance on the features as they are (UN). Inductive.

    Wang et al., "SimpleShot: Revisiting Nearest-Neighbor Classification for Few-Shot Learning", 2019.
    Ranks classes as ``ProtoNet`` does; published tables have both names.
    """

    name: ClassVar[str] = "simpleshot-un"
    title: ClassVar[str] = "SimpleShot (UN)"
    reference: ClassVar[str] = _REFERENCE
    transductive: ClassVar[bool] = False

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        return minus_distances_to_means(tasks)


def _cosines_to_means(support: NDArray[Any], tasks: Tasks, query: NDArray[Any]) -> NDArray[Any]:
    """Cosines (T, n_query, N) between queries of unit length and the means of the classes."""
    return inner_products(query, l2_normalize(class_means(support, tasks.labels, tasks.n_way)))
