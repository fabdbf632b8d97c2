"""On real features: the same accuracy as EasyFSL, and the figures of the field's simplest method."""

import numpy as np
import pytest

from marginshot.methods import get_method
from marginshot.model.transforms import centre_and_normalize
from tasks_for_tests import from_bank


@pytest.fixture(scope="module")
def tasks(shared_data):
    """60 five-way one-shot tasks of validation classes, in the half precision they are stored in."""
    with np.load(shared_data / "features" / "small_resnet-val.npz") as arrays:
        return from_bank(arrays["X"], arrays["y"], np.random.default_rng(0), n_tasks=60)


def accuracy(scores, truth):
    return (scores.argmax(axis=2) == truth).mean()


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("simpleshot", "SimpleShot"), ("bd-cspn-easyfsl", "BDCSPN"), ("laplacianshot-easyfsl", "LaplacianShot")],
)
def test_accuracy_is_easyfsls(tasks, name, theirs):
    easyfsl_methods, torch = pytest.importorskip("easyfsl.methods"), pytest.importorskip("torch")
    support, labels, query, truth = tasks
    prepared = centre_and_normalize(support.astype(np.float32), query.astype(np.float32), "task")
    scores = []
    for s, y, q in zip(prepared[0], labels, prepared[1], strict=True):
        classifier = getattr(easyfsl_methods, theirs)()
        classifier.process_support_set(torch.from_numpy(s), torch.from_numpy(y))
        scores.append(classifier(torch.from_numpy(q)).numpy())
    ours = accuracy(get_method(name).predict_scores(support, labels, query), truth)
    assert abs(ours - accuracy(np.array(scores), truth)) <= 0.005


def test_transduction_pays_on_balanced_tasks(tasks):
    """Every transductive method that is told or assumes balance beats the nearest class mean it starts from."""
    support, labels, query, truth = tasks
    nearest = accuracy(get_method("simpleshot").predict_scores(support, labels, query), truth)
    for name in ("bd-cspn", "laplacianshot", "tim-gd", "pt-map", "paddle", "label-propagation"):
        assert accuracy(get_method(name).predict_scores(support, labels, query), truth) > nearest, name
