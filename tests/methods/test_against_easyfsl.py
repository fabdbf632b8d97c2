"""The same scores as EasyFSL on the same features, method by method."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from marginshot.methods import get_method
from marginshot.model.transforms import centre_and_normalize
from tasks_for_tests import blobs

easyfsl_methods = pytest.importorskip("easyfsl.methods")
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def batch():
    support, labels, query, _ = blobs(
        np.random.default_rng(9), n_tasks=3, n_way=5, n_shot=3, n_query_per_class=8, n_features=64, spread=4.0
    )
    keep = [0, 1, 2, 3, 6, 7, 9, 12, 13]  # shots 3, 1, 2, 1, 2
    return np.abs(support[:, keep]), labels[:, keep], np.abs(query)


def easyfsl_scores(classifier, support, labels, query):
    """A fresh classifier for each task, because EasyFSL's keep what they learnt."""
    scores = []
    for s, y, q in zip(support, labels, query, strict=True):
        model = classifier()
        model.process_support_set(torch.tensor(s, dtype=torch.float32), torch.tensor(y))
        scores.append(model(torch.tensor(q, dtype=torch.float32)).detach().numpy())
    return np.array(scores)


@pytest.mark.parametrize(
    ("name", "settings", "theirs", "factor"),
    [
        ("simpleshot", {}, "SimpleShot", 1.0),
        ("bd-cspn-easyfsl", {}, "BDCSPN", 1.0),
        ("laplacianshot-easyfsl", {}, "LaplacianShot", 1.0),
        (
            "tim-gd-easyfsl",
            {"learning_rate": 1e-4, "centre": "task"},
            "TIM",
            10.0,
        ),  # EasyFSL leaves the temperature out of the scores
        ("baseline-plus", {}, "Finetune", 1.0),
    ],
)
def test_same_scores_on_centred_and_scaled_features(batch, name, settings, theirs, factor):
    support, labels, query = batch
    s, q = centre_and_normalize(support, query, "task")
    expected = factor * easyfsl_scores(getattr(easyfsl_methods, theirs), s, labels, q)
    assert_allclose(get_method(name, **settings).predict_scores(*batch), expected, atol=2e-4 * factor)


def test_protonet_squares_easyfsls_distances(batch):
    expected = easyfsl_scores(easyfsl_methods.PrototypicalNetworks, *batch)
    assert_allclose(get_method("protonet").predict_scores(*batch), -(expected**2), rtol=1e-4)


def test_pt_map_after_the_authors_preparation(batch):
    class PTMAP(easyfsl_methods.PTMAP):
        """EasyFSL's without its preparation of the features; few rounds, its thousand iterations are slow."""

        def __init__(self):
            super().__init__(fine_tuning_steps=3)

        def compute_features(self, images):
            return images

    def prepare(rows):
        rows = (rows + 1e-6) ** 0.5
        rows = rows / np.linalg.norm(rows, axis=2, keepdims=True)
        rows = rows - rows.mean(axis=1, keepdims=True)
        return rows / np.linalg.norm(rows, axis=2, keepdims=True)

    support, labels, query = batch
    expected = easyfsl_scores(PTMAP, prepare(support), labels, prepare(query))
    assert_allclose(get_method("pt-map", n_rounds=3).predict_scores(*batch), expected, atol=1e-3)


def test_matchingnet_without_encoders(batch):
    """With encoders that add nothing and queries of unit length EasyFSL's attention is the paper's Eq. (1)."""

    class Nothing(torch.nn.Module):
        def forward(self, rows, state=None):
            if state is None:
                return torch.zeros(*rows.shape[:-1], 2 * rows.shape[-1]), None
            return torch.zeros_like(state[0]), state[1]

    def classifier():
        return easyfsl_methods.MatchingNetworks(
            feature_dimension=64, support_encoder=Nothing(), query_encoder=Nothing()
        )

    support, labels, query = batch
    s, q = centre_and_normalize(support, query, "task")
    expected = np.exp(easyfsl_scores(classifier, s, labels, q))
    assert_allclose(get_method("matchingnet").predict_scores(*batch), expected, atol=1e-5)


def test_easyfsl_pt_map_gives_zeros_where_ours_answers(batch):
    """Why ours differs: fewer queries than classes."""
    support, labels, query = 0.01 * batch[0], batch[1], 0.01 * batch[2]
    assert not easyfsl_scores(easyfsl_methods.PTMAP, support, labels, query[:, :3]).any()
    assert_allclose(get_method("pt-map").predict_scores(support, labels, query[:, :3]).sum(axis=2), 1.0)
