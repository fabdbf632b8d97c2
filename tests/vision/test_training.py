from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra vision")

from picture_layouts import (  # noqa: E402
    write_class_folders,
    write_csv_lists,
    write_cub,
    write_mini_cache,
    write_tiered_pickles,
)
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from marginshot.vision.batches import EpochBatches  # noqa: E402
from marginshot.vision.datasets import open_dataset  # noqa: E402
from marginshot.vision.network import build_classifier  # noqa: E402
from marginshot.vision.preprocessing import AugmentedImages  # noqa: E402
from marginshot.vision.runs import RunError, RunFolder  # noqa: E402
from marginshot.vision.settings import Hardware, TrainSettings  # noqa: E402
from marginshot.vision.training import train  # noqa: E402
from marginshot.vision.validation import nearest_mean_accuracy  # noqa: E402

CPU = Hardware(accelerator="cpu", checkpoint_steps=2, log_steps=1)


def small_settings(**changes):
    values = {
        "dataset": "folder",
        "backbone": "conv4",
        "image_size": 16,
        "epochs": 3,
        "batch_size": 8,
        "learning_rate": 0.05,
        "validation_tasks": 20,
        "validation_queries": 3,
        "seed": 5,
    }
    return TrainSettings(**{**values, **changes})


@pytest.fixture(scope="module")
def finished_run(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    train(small_settings(), CPU, folder, out)
    return out


@pytest.mark.parametrize(
    ("dataset", "layout", "backbone", "batch_size"),
    [
        ("miniimagenet", "folders", "resnet18", 4),
        ("miniimagenet", "csv", "densenet121", 3),
        ("miniimagenet", "cache", "wrn28-10", 2),
        ("tieredimagenet", "pickles", "resnet18", 4),
        ("cub", "CUB_200_2011", "densenet121", 3),
    ],
)
def test_the_paper_backbones_learn_in_every_layout(tmp_path, small_splits, dataset, layout, backbone, batch_size):
    splits = small_splits(dataset, 3)
    every_class = tuple(sorted(sum(splits.values(), ())))
    {
        "folders": lambda: write_class_folders(tmp_path, every_class),
        "csv": lambda: write_csv_lists(tmp_path, splits),
        "cache": lambda: write_mini_cache(tmp_path, splits),
        "pickles": lambda: write_tiered_pickles(tmp_path, (3, 3, 3)),
        "CUB_200_2011": lambda: write_cub(tmp_path, every_class),
    }[layout]()
    settings = TrainSettings(dataset=dataset, backbone=backbone, batch_size=batch_size, subset=True)
    base = open_dataset(dataset, tmp_path, "base", subset=True)
    batches = EpochBatches(len(base), batch_size, settings.seed)
    images, labels = next(iter(DataLoader(AugmentedImages(base, settings), batch_sampler=batches)))
    assert images.shape == (batch_size, 3, 84, 84)
    network = build_classifier(settings, len(base.classes)).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        loss = functional.cross_entropy(network(images), labels, label_smoothing=settings.label_smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]


def test_training_learns_and_writes_everything_down(finished_run):
    with (finished_run / "epochs.csv").open() as file:
        epochs = list(csv.DictReader(file))
    assert [row["epoch"] for row in epochs] == ["1", "2", "3"]
    assert float(epochs[-1]["loss"]) < float(epochs[0]["loss"])
    assert float(epochs[-1]["base_accuracy"]) > float(epochs[0]["base_accuracy"])
    with (finished_run / "steps.csv").open() as file:
        steps = list(csv.DictReader(file))
    assert len(steps) == 3 * 15
    mean = np.mean([float(row["loss"]) for row in steps if row["epoch"] == "2"])
    assert mean == pytest.approx(float(epochs[1]["loss"]), rel=1e-12)
    config = json.loads((finished_run / "config.json").read_text())
    assert config["settings"] == small_settings().as_dict()
    assert len(config["data"]["classes"]) == 24
    assert list((finished_run / "tensorboard").glob("events*"))
    best, last = (load_file(finished_run / f"{which}.safetensors") for which in ("best", "last"))
    assert set(best) == set(last)


def test_the_best_epoch_is_the_one_with_the_highest_validation_accuracy(finished_run):
    with (finished_run / "epochs.csv").open() as file:
        accuracies = [float(row["validation_accuracy"]) for row in csv.DictReader(file)]
    state = json.loads(_metadata(finished_run / "state.safetensors")["progress"])
    assert state["best_accuracy"] == max(accuracies)
    assert state["best_epoch"] == accuracies.index(max(accuracies)) + 1


def _metadata(path):
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.metadata()


class _StopAt:
    """An observer that ends the process's training in the middle of a step, as a kill does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, report) -> None:
        self.step -= 1
        if self.step == 0:
            raise KeyboardInterrupt

    def on_epoch(self, epoch, values) -> None:
        pass


def test_gpus_keep_their_fast_kernels_but_only_those_that_repeat_themselves(folder, tmp_path):
    seen = []

    class Look(_StopAt):
        def on_step(self, report) -> None:
            seen.append((torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic))
            super().on_step(report)

    with pytest.raises(KeyboardInterrupt):
        train(small_settings(), CPU, folder, tmp_path / "run", Look(1))
    assert seen == [(True, True)]


@pytest.mark.parametrize("step", [1, 7, 15, 16, 38])
def test_resuming_gives_identical_weights(folder, finished_run, tmp_path, step):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(small_settings(), CPU, folder, out, _StopAt(step))
    train(small_settings(), CPU, folder, out)
    for which in ("best", "last"):
        expected, found = (load_file(path / f"{which}.safetensors") for path in (finished_run, out))
        assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert (out / "steps.csv").read_text() == (finished_run / "steps.csv").read_text()


def test_the_state_is_saved_by_time_too(folder, finished_run, tmp_path):
    out = tmp_path / "run"
    often = Hardware(accelerator="cpu", checkpoint_steps=10**6, checkpoint_minutes=1e-9, log_steps=1)
    with pytest.raises(KeyboardInterrupt):
        train(small_settings(), often, folder, out, _StopAt(7))
    with safe_open(out / "state.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["progress"])["step"] == 6, "the step before the one that was stopped"
    train(small_settings(), CPU, folder, out)
    expected, found = (load_file(path / "last.safetensors") for path in (finished_run, out))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.9, True), (0.9, False), (0.0, True)])
def test_momentum_is_torchs(folder, tmp_path, monkeypatch, momentum, nesterov):
    asked = []
    optimizer = torch.optim.SGD

    def noted(parameters, **options):
        asked.append((options["momentum"], options["nesterov"]))
        return optimizer(parameters, **options)

    monkeypatch.setattr(torch.optim, "SGD", noted)
    with pytest.raises(KeyboardInterrupt):
        train(small_settings(momentum=momentum, nesterov=nesterov), CPU, folder, tmp_path / "run", _StopAt(1))
    assert asked == [(momentum, nesterov and momentum > 0)]


# The installed program itself: with several devices it starts itself again, by its own name.
COMMAND = [str(Path(sys.executable).with_name("marginshot")), "train", "folder"]
OPTIONS = [
    *("--backbone", "conv4", "--image-size", "16", "--epochs", "3", "--batch-size", "8", "--learning-rate", "0.05"),
    *("--validation-tasks", "20", "--validation-queries", "3", "--seed", "5"),
    *("--accelerator", "cpu", "--checkpoint-steps", "2", "--log-steps", "1"),
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def test_a_killed_command_resumes_to_identical_weights(folder, finished_run, tmp_path):
    out = tmp_path / "run"
    command = [*COMMAND, "--data", str(folder), "--out", str(out), *OPTIONS]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    lines = 11  # between two checkpoints, in the second epoch
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if (out / "steps.csv").is_file() and len((out / "steps.csv").read_text().splitlines()) > lines:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    process.wait(timeout=60)
    finished = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=True)
    assert "Trained 3 epochs" in finished.stderr
    expected, found = (load_file(path / "last.safetensors") for path in (finished_run, out))
    assert all(torch.equal(expected[name], found[name]) for name in expected), f"killed after {lines} lines"
    # Of the one write that the signal may interrupt: the temporary file, and that of safetensors within it.
    leftovers = [path.name for path in out.iterdir() if path.name.startswith(".")]
    of_safetensors = [name for name in leftovers if name.startswith(".tmp")]
    assert len(leftovers) - len(of_safetensors) <= 1, leftovers
    assert len(of_safetensors) <= 1, leftovers


# In single precision the curves part after some steps, as they do between two versions of one library: where a rounding
# error moves a value across the kink of a ReLU, the gradient jumps. In double precision that takes far longer.
@pytest.mark.parametrize(
    ("precision", "batch_size", "n_steps", "tolerance"), [("64-true", 8, 15, 1e-4), ("32-true", 40, 3, 0.02)]
)
def test_two_processes_give_the_loss_curve_of_one(folder, tmp_path, precision, batch_size, n_steps, tolerance):
    settings = small_settings(backbone="small-resnet", epochs=1, batch_size=batch_size)
    hardware = Hardware(accelerator="cpu", precision=precision, log_steps=1)
    train(settings, hardware, folder, tmp_path / "one")
    changes = ["--backbone", "small-resnet", "--epochs", "1", "--batch-size", str(batch_size), "--devices", "2"]
    command = [*COMMAND, "--data", str(folder), "--out", str(tmp_path / "two"), *OPTIONS, *changes]
    process = subprocess.run(
        [*command, "--precision", precision], env=ENVIRONMENT, capture_output=True, text=True, timeout=240, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "Warning" not in process.stderr
    curves = []
    for run in ("one", "two"):
        with (tmp_path / run / "steps.csv").open() as file:
            curves.append([float(row["loss"]) for row in csv.DictReader(file)])
    assert len(curves[0]) == n_steps
    np.testing.assert_allclose(curves[0], curves[1], rtol=0, atol=tolerance)
    assert curves[0][0] == pytest.approx(curves[1][0], abs=1e-5), "before the first step"
    accuracies = [(tmp_path / run / "epochs.csv").read_text().splitlines()[1].split(",")[3] for run in ("one", "two")]
    assert float(accuracies[0]) == pytest.approx(float(accuracies[1]), abs=0.05)


def test_two_processes_both_end_where_the_folder_cannot_be_used(folder, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    command = [*COMMAND, "--data", str(folder), "--out", str(tmp_path), *OPTIONS, "--devices", "2"]
    process = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 2
    assert "exists and holds no run; choose another --out" in " ".join(process.stderr.split())
    assert "Traceback" not in process.stderr


def test_a_finished_run_is_left_alone(folder, finished_run):
    before = (finished_run / "last.safetensors").read_bytes()
    result = train(small_settings(), CPU, folder, finished_run)
    assert (finished_run / "last.safetensors").read_bytes() == before
    assert result.best_epoch >= 1


def test_other_settings_do_not_overwrite_a_run(folder, finished_run):
    with pytest.raises(RunError, match=r"holds another run: learning_rate was 0\.05 and is now 0\.2\. Choose another"):
        train(small_settings(learning_rate=0.2), CPU, folder, finished_run)


def test_other_pictures_do_not_continue_a_run(finished_run, tmp_path):
    write_class_folders(tmp_path, tuple(f"class{k:02d}" for k in range(30)), per_class=4, side=20)
    with pytest.raises(RunError, match="had 24 classes with 120 pictures and now has 24 with 96"):
        train(small_settings(), CPU, tmp_path, finished_run)


def test_a_folder_with_other_things_is_left_alone(folder, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RunError, match="exists and holds no run; choose another --out"):
        train(small_settings(), CPU, folder, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_truncated_state_is_named(folder, finished_run, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "config.json").write_bytes((finished_run / "config.json").read_bytes())
    (out / "state.safetensors").write_bytes((finished_run / "state.safetensors").read_bytes()[:-100])
    with pytest.raises(RunError, match=r"state\.safetensors is damaged, or not the weights of a run"):
        train(small_settings(), CPU, folder, out)


def test_an_exploding_loss_is_said(folder, tmp_path):
    with pytest.raises(RunError, match=r"The loss became (nan|inf) at step \d+ of epoch 1; lower the learning rate"):
        train(small_settings(learning_rate=1e30), CPU, folder, tmp_path / "run")


def test_too_few_validation_classes(tmp_path):
    write_class_folders(tmp_path, ("a", "b", "c"), per_class=8, side=20)
    with pytest.raises(ValueError, match=r"has 1 classes but validation tasks need at least 2\..* splits\.csv"):
        train(small_settings(), CPU, tmp_path, tmp_path / "run")
    write_class_folders(tmp_path, tuple(f"class{k:02d}" for k in range(30)), per_class=2, side=20)
    with pytest.raises(ValueError, match=r"3 queries need 4 pictures a class, but .* has fewer in class"):
        train(small_settings(), CPU, tmp_path, tmp_path / "run")


@pytest.mark.parametrize(("n_classes", "n_validation"), [(4, 2), (9, 4), (12, 5), (24, 5), (30, 6)])
def test_folders_of_few_classes_train(tmp_path, n_classes, n_validation):
    """Issue 36: fewer than 25 classes were refused, because a fifth of them is fewer than five."""
    data = tmp_path / "data"
    write_class_folders(data, tuple(f"class{k:02d}" for k in range(n_classes)), per_class=6, side=20)
    result = train(small_settings(epochs=1), CPU, data, tmp_path / "run")
    assert result.validation_way == min(5, n_validation)
    assert (
        len(json.loads((tmp_path / "run" / "config.json").read_text())["data"]["classes"]) == n_classes - n_validation
    )


def test_validation_every_few_epochs_and_after_the_last(folder, finished_run, tmp_path):
    train(small_settings(validate_every=2), CPU, folder, tmp_path / "run")
    with (tmp_path / "run" / "epochs.csv").open() as file, (finished_run / "epochs.csv").open() as every:
        rows, expected = list(csv.DictReader(file)), list(csv.DictReader(every))
    assert [row["validation_accuracy"] for row in rows] == ["", *(row["validation_accuracy"] for row in expected[1:])]
    assert [row["loss"] for row in rows] == [row["loss"] for row in expected]
    assert (tmp_path / "run" / "best.safetensors").is_file()
    with pytest.raises(ValueError, match="validate_every must be at least 1; got 0"):
        small_settings(validate_every=0)


def test_a_dry_run_measures_and_writes_nothing(folder, tmp_path):
    command = [*COMMAND, "--data", str(folder), "--out", str(tmp_path / "run"), *OPTIONS, "--dry-run"]
    told = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"3 epochs of (\d+) steps of 8 pictures: about (\S+) hours .*\((\S+) s a step, (\S+) s a", told)
    steps, hours, step, validation = map(float, found.groups())
    assert hours == pytest.approx(3 * (steps * step + validation) / 3600, rel=0.2)
    assert not (tmp_path / "run").exists()


def test_corrupt_pictures_stop_or_are_counted(tmp_path):
    data = tmp_path / "data"
    write_class_folders(data, tuple(f"class{k:02d}" for k in range(30)), per_class=5, side=20)
    for name in ("class00", "class01"):
        (data / name / "0000.jpg").write_bytes(b"broken")
    with pytest.raises(ValueError, match=r"class0\d/0000\.jpg cannot be read"):
        train(small_settings(epochs=1), CPU, data, tmp_path / "stops")
    result = train(small_settings(epochs=1, skip_corrupt=True), CPU, data, tmp_path / "skips")
    assert len(result.skipped) == 2


def test_the_learning_rate_falls_every_thirty_epochs():
    settings = TrainSettings(dataset="glyphs", backbone="resnet18")
    rates = [settings.learning_rate_at(epoch) for epoch in (0, 29, 30, 59, 60, 89)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])


@pytest.mark.parametrize(("backbone", "batch_size"), [("resnet18", 256), ("wrn28-10", 128), ("densenet121", 100)])
def test_the_defaults_are_the_papers(backbone, batch_size):
    settings = TrainSettings(dataset="miniimagenet", backbone=backbone)
    assert (settings.batch_size, settings.image_size) == (batch_size, 84)
    assert (settings.label_smoothing, settings.learning_rate) == (0.1, 0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"learning_rate": -1.0}, "learning_rate must be above 0"),
        ({"label_smoothing": 1.0}, "label_smoothing must be at least 0 and below 1"),
        ({"crop_scale": 0.0}, "crop_scale must be above 0"),
        ({"weight_decay": -0.1}, "weight_decay must not be negative"),
    ],
)
def test_impossible_settings_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        small_settings(**change)


def test_batches_are_shared_without_loss():
    whole = EpochBatches(50, 8, seed=3)
    shares = [EpochBatches(50, 8, seed=3, rank=rank, world_size=4) for rank in range(4)]
    for batches in (whole, *shares):
        batches.go_to(2, 1)
    for batch, *parts in zip(whole, *shares, strict=True):
        assert sorted(batch) == sorted(chain(*parts))
        assert {len(part) for part in parts} == {2}
    assert len(list(whole)) == len(whole) == 5
    with pytest.raises(ValueError, match="batch_size 8 cannot be shared equally by 3 processes"):
        EpochBatches(50, 8, seed=3, world_size=3)
    with pytest.raises(ValueError, match="A batch of 8 needs more than the 7 base pictures"):
        EpochBatches(7, 8, seed=3)


def test_augmentation_depends_on_seed_epoch_and_picture_only(folder):
    images = AugmentedImages(open_dataset("folder", folder, "base", seed=5), small_settings())
    before = torch.random.get_rng_state()
    first, _ = images[2, 7]
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(99)
    again, _ = images[2, 7]
    other, _ = images[3, 7]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_nearest_mean_accuracy_on_a_case_worked_by_hand():
    # Six classes on six axes: every query lies on its class. Without labels to go by: one in five.
    labels = np.repeat(np.arange(6), 4)
    assert nearest_mean_accuracy(np.eye(6)[labels], labels, 10, 3, seed=0) == 1.0
    assert nearest_mean_accuracy(np.ones((24, 2)), labels, 10, 3, seed=0) == pytest.approx(0.2)


@pytest.mark.parametrize("change", [{"accelerator": "abacus"}, {"precision": "12-true"}])
def test_impossible_hardware_is_named(folder, tmp_path, change):
    with pytest.raises(ValueError, match="This machine cannot train as asked: "):
        train(small_settings(), Hardware(**{"accelerator": "cpu", **change}), folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_missing_run_is_said(tmp_path):
    with pytest.raises(RunError, match=r"is not a run: it has no config\.json"):
        RunFolder(tmp_path).read_config()
