import pytest

from marginshot.classifier.settings import PRESETS
from marginshot.methods import METHODS, get_method
from marginshot.methods.base import register

EXPECTED = {
    "adaptive-manifold",
    "alpha-tim",
    "bavardage",
    "baseline",
    "baseline-plus",
    "bd-cspn",
    "bd-cspn-easyfsl",
    "bms",
    "bpa",
    "em-dirichlet",
    "fs-mmc",
    "fs-tmmc",
    "fs-tmmc-auto",
    "fs-tmmc-balanced",
    "fs-tmmc-estimate",
    "fs-tmmc-printed",
    "hard-em-dirichlet",
    "ilpc",
    "label-propagation",
    "laplacianshot",
    "laplacianshot-easyfsl",
    "laplacianshot-unrectified",
    "lp++",
    "matchingnet",
    "ostim",
    "paddle",
    "protolp",
    "protonet",
    "pt-map",
    "ridge",
    "simpleshot",
    "simpleshot-l2n",
    "simpleshot-un",
    "soft-kmeans",
    "stata",
    "svm",
    "tim-gd",
    "tim-gd-easyfsl",
    "transclip",
    "transclip-zero-shot",
    "transductive-finetuning",
    "unem-gaussian",
    "zero-shot",
    "zlap",
}


def test_every_method_of_the_field_is_there():
    assert set(METHODS) == EXPECTED


def test_settings_arrive():
    assert get_method("laplacianshot", smoothing=0.25).smoothing == 0.25


def test_unknown_method_suggests_the_nearest():
    with pytest.raises(
        ValueError, match=r"Unknown method 'simple-shot'; did you mean 'simpleshot'\? Known: adaptive-manifold,"
    ):
        get_method("simple-shot")


def test_nothing_near_suggests_nothing():
    with pytest.raises(ValueError, match=r"Unknown method 'zzz'\. Known:"):
        get_method("zzz")


def test_unknown_setting_is_named_with_the_known_ones():
    with pytest.raises(
        ValueError,
        match=r"'laplacianshot' has no setting 'smoothness'; did you mean 'smoothing'\? It takes: smoothing,",
    ):
        get_method("laplacianshot", smoothness=1.0)


def test_method_without_settings_says_so():
    with pytest.raises(ValueError, match=r"'protonet' has no setting 'k'\. It takes: none\."):
        get_method("protonet", k=1)


def test_two_methods_cannot_share_a_name():
    with pytest.raises(ValueError, match="Two methods are named 'protonet'"):
        register(METHODS["protonet"])


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("laplacianshot", {"smoothing": -1.0}, r"smoothing of LaplacianShot must be in \[0, inf\); got -1.0"),
        ("laplacianshot", {"n_neighbors": 0}, "n_neighbors of LaplacianShot must be an integer of at least 1; got 0"),
        ("laplacianshot", {"max_iter": 2.5}, "max_iter of LaplacianShot must be an integer of at least 1; got 2.5"),
        ("tim-gd", {"temperature": 0.0}, r"temperature of TIMGD must be in \(0, inf\); got 0.0"),
        ("tim-gd", {"temperature": "hot"}, "temperature of TIMGD must be a number; got 'hot'"),
        ("tim-gd", {"learning_rate": float("nan")}, r"learning_rate of TIMGD must be in \[0, inf\); got nan"),
        ("pt-map", {"step": 1.5}, r"step of PTMAP must be in \[0, 1\]; got 1.5"),
        ("label-propagation", {"damping": 1.0}, r"damping of LabelPropagation must be in \[0, 1\); got 1.0"),
        ("simpleshot", {"centre": "middle"}, "centre must be 'task', 'support', 'none' or a vector.*got 'middle'"),
        ("simpleshot", {"centre": [[1.0]]}, r"centre must be a finite vector of shape \(D,\); got an array of shape"),
    ],
)
def test_bad_settings_are_named(name, settings, message):
    with pytest.raises(ValueError, match=message):
        get_method(name, **settings)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_method_of_a_preset_has_its_parameters(preset):
    """Of a method called by name, as of the estimator: "printed" is the paper in both."""
    method = get_method("fs-tmmc" if preset == "paper" else f"fs-tmmc-{preset}")
    assert {name: getattr(method, name) for name in PRESETS[preset]} == PRESETS[preset]
