from __future__ import annotations

import hashlib
import json

import pytest

torch = pytest.importorskip("torch", reason="needs the extra vision")

from safetensors.torch import load_file, save_file  # noqa: E402
from test_extraction import publish  # noqa: E402

from marginshot.vision.network import build_classifier  # noqa: E402
from marginshot.vision.published import CheckpointError  # noqa: E402
from marginshot.vision.runs import RunError, RunFolder  # noqa: E402
from marginshot.vision.settings import Hardware, TrainSettings  # noqa: E402
from marginshot.vision.starting import load_start, starting_from  # noqa: E402
from marginshot.vision.training import train  # noqa: E402

CPU = Hardware(accelerator="cpu", log_steps=1)


def small_settings(**changes):
    values = {"dataset": "folder", "backbone": "conv4", "image_size": 16, "epochs": 1, "batch_size": 16}
    return TrainSettings(**{**values, "validation_tasks": 20, "validation_queries": 3, **changes})


@pytest.fixture(scope="module")
def first_run(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "first"
    train(small_settings(epochs=2), CPU, folder, out)
    return out


def base_classes(run):
    return RunFolder(run).read_config()[1].classes


def loaded(source, image_size=16, classes=None):
    """A network before and after it took over the weights of ``source``."""
    settings = small_settings(image_size=image_size, seed=3)
    before, network = (build_classifier(settings, 24) for _ in range(2))
    load_start(network.backbone, network.head, source, "conv4", classes or base_classes(source))
    return before.state_dict(), network.state_dict()


def test_backbone_and_head_of_the_best_epoch_are_taken_over(first_run):
    best = load_file(first_run / "best.safetensors")
    _, network = loaded(first_run)
    assert all(torch.equal(value, best[name]) for name, value in network.items())


@pytest.mark.parametrize("change", [{"classes": tuple(map(str, range(24)))}, {"image_size": 36}])
def test_the_head_of_other_classes_or_features_is_left_alone(first_run, change):
    best = load_file(first_run / "best.safetensors")
    before, network = loaded(first_run, **{"classes": base_classes(first_run), **change})
    for name, value in network.items():
        assert torch.equal(value, (before if name.startswith("head.") else best)[name]), name


def test_a_published_checkpoint_is_a_start(tmp_path):
    expected = publish(tmp_path / "model.pth.tar", "conv4", "conv4", "fc").state_dict()
    _, network = loaded(tmp_path / "model.pth.tar", classes=("a",))
    assert all(torch.equal(network[f"backbone.{name}"], value) for name, value in expected.items())


def test_the_start_is_recorded_and_helps(folder, first_run, tmp_path):
    settings = small_settings(image_size=20, learning_rate=0.01)
    losses = []
    for name, start in (("afresh", None), ("started", first_run)):
        train(settings, CPU, folder, tmp_path / name, start_from=start)
        losses.append(float((tmp_path / name / "epochs.csv").read_text().splitlines()[1].split(",")[1]))
    assert losses[1] < losses[0]
    recorded = json.loads((tmp_path / "started" / "config.json").read_text())["settings"]["start_from"]
    assert recorded == hashlib.sha256((first_run / "best.safetensors").read_bytes()).hexdigest()
    with pytest.raises(RunError, match=r"holds another run: start_from was '.+' and is now ''\. Choose another"):
        train(settings, CPU, folder, tmp_path / "started")


def test_a_start_that_does_not_fit_is_refused(folder, first_run, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(RunError, match=r"holds the weights of conv4, and small-resnet cannot start from them"):
        train(small_settings(backbone="small-resnet"), CPU, folder, out, start_from=first_run)
    publish(tmp_path / "model.pth.tar", "conv4", "conv4", "fc")
    with pytest.raises(CheckpointError, match=r"model\.pth\.tar is not our small-resnet: it has no"):
        train(small_settings(backbone="small-resnet"), CPU, folder, out, start_from=tmp_path / "model.pth.tar")
    with pytest.raises(RunError, match=r"There are no weights to start from in .*nowhere; give a run's folder"):
        starting_from(small_settings(), tmp_path / "nowhere")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_bytes((first_run / "config.json").read_bytes())
    save_file({"backbone.other": torch.zeros(2)}, broken / "best.safetensors")
    with pytest.raises(RunError, match=r"best\.safetensors does not fit the backbone of its run; train the run again"):
        train(small_settings(), CPU, folder, out, start_from=broken)
    assert not out.exists(), "nothing was begun"
