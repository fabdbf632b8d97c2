from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs the extra vision")

from marginshot.vision.backbones import build_backbone  # noqa: E402


# Counted by hand from the layer tables: torchvision's count without its classifier, the change of the stem added.
@pytest.mark.parametrize(
    ("name", "n_parameters", "n_features"),
    [
        ("resnet18", 11_689_512 - 513_000 - 9_408 + 1_728, 512),
        ("wrn28-10", 36_482_880, 640),
        ("densenet121", 7_978_856 - 1_025_000 - 9_408 - 128 + 1_728, 1024),
        ("conv4", 4 * 64 + 3 * 64 * 9 + 3 * 64 * 64 * 9 + 4 * 128, 1600),
        ("resnet12", 12_424_320, 640),
    ],
)
def test_parameters_and_features_at_84(name, n_parameters, n_features):
    network = build_backbone(name).eval()
    assert sum(parameter.numel() for parameter in network.parameters()) == n_parameters
    with torch.inference_mode():
        assert network(torch.zeros(1, 3, 84, 84)).shape == (1, n_features)


def test_small_resnet_at_32():
    with torch.inference_mode():
        assert build_backbone("small-resnet").eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 256)


def test_the_first_two_down_samplings_are_gone():
    stem = torch.zeros(1, 3, 84, 84)
    network = build_backbone("resnet18")
    assert network.layer1(network.maxpool(network.conv1(stem))).shape == (1, 64, 84, 84)
    dense = build_backbone("densenet121").features
    assert dense.conv0(stem).shape == (1, 64, 84, 84)
    assert not hasattr(dense, "pool0")


def test_weights_depend_on_the_seed_only():
    before = torch.random.get_rng_state()
    first, again, other = (build_backbone("conv4", seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["blocks.0.0.weight"], other["blocks.0.0.weight"])


def test_unknown_backbone_lists_the_known():
    with pytest.raises(ValueError, match="no backbone 'vgg'; choose one of conv4, densenet121"):
        build_backbone("vgg")
