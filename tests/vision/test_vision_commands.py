from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from marginshot.cli._recipes import load_recipe, parse_recipe, recipe_names
from marginshot.cli.app import main

TINY = """
[recipe]
title = "tiny"
[train]
dataset = "folder"
folder = "base"
backbone = "conv4"
image_size = 16
epochs = 2
batch_size = 16
validation_tasks = 20
validation_queries = 3
[test]
dataset = "folder"
folder = "novel"
split = "all"
without = ["Greek"]
[evaluate]
methods = ["fs-tmmc", "simpleshot"]
shots = [1]
tasks = 20
[paper]
fs-tmmc = { 1 = 71.96 }
"""


STAGES = """
[[stage]]
[[stage]]
image_size = 20
epochs = 1
learning_rate = 0.01
[test]
"""


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ending:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(ending.value.code or 0), captured.out, captured.err


def test_recipes_hold_the_papers_numbers(shared_data):
    paper = (shared_data.parent / "paper.tex").read_text()
    names = recipe_names()
    assert len([name for name in names if load_recipe(name).paper]) == 10
    rows = {
        "resnet18": re.findall(r".*FS-TMMC \(ours\).*ResNet-18.*", paper),
        "wrn": re.findall(r".*FS-TMMC \(ours\).*& WRN .*", paper),
        "densenet": re.findall(r".*FS-TMMC \(ours\).*DenseNet.*", paper),
    }
    for name in names:
        recipe = load_recipe(name)
        for method, cells in recipe.paper.items():
            for accuracy in cells.values():
                assert f"{accuracy:.2f}" in paper, (name, method)
        for accuracy in recipe.paper.get("fs-tmmc", {}).values():
            network = next(network for network in rows if network in name.split("-"))
            assert any(f"{accuracy:.2f}" in row for row in rows[network]), name


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_can_be_trained(name):
    pytest.importorskip("torch", reason="needs the extra vision")
    from marginshot.vision.settings import TrainSettings

    recipe = load_recipe(name)
    settings = [TrainSettings.from_dict(dict(stage.train), name) for stage in recipe.stages]
    small = settings[-1].image_size < 84
    assert small == (not recipe.paper or name == "mini-resnet18-two-cores")  # its title and page say how small
    if recipe.paper:
        assert recipe.evaluate["tasks"] == 10_000
        assert recipe.evaluate["shots"] == [1, 5]


def test_reproduce_from_nothing_and_again(capsys, monkeypatch, tmp_path):
    pytest.importorskip("torch", reason="needs the extra vision")
    from picture_layouts import write_class_folders

    from marginshot.cli import reproduce

    monkeypatch.setattr(reproduce, "load_recipe", lambda name: parse_recipe(name, TINY))
    data, out = tmp_path / "data", tmp_path / "runs"
    write_class_folders(data / "base", tuple(f"class{k:02d}" for k in range(30)), per_class=4, side=20)
    write_class_folders(data / "novel", ("Greek/alpha", *(f"new{k}" for k in range(6))), per_class=17, side=20)
    arguments = ("reproduce", "tiny", "--data", str(data), "--out", str(out), "--accelerator", "cpu", "-j", "1")
    code, printed, said = run(capsys, *arguments)
    assert code == 0, said
    assert "71.96" in printed
    assert "FS-TMMC [T]" in printed
    assert "features of 102 pictures in 6 classes" in said, "the excluded alphabet is not tested on"
    result = json.loads((out / "tiny.json").read_text())
    code, again, said = run(capsys, *arguments)
    assert again == printed
    assert [line.split(":")[0] for line in said.splitlines()] == [
        "Training is finished",
        "Features are extracted",
        "The result is there",
    ]
    code, text, _ = run(capsys, *arguments, "--format", "json")
    assert json.loads(text)["paper"] == {"fs-tmmc": {"1": 71.96}}
    assert json.loads(text)["results"][0]["accuracy"] == result["results"][0]["accuracy"]
    # Other weights: the features and the result that came from the old ones are made anew.
    (out / "tiny" / "best.safetensors").write_bytes((out / "tiny" / "last.safetensors").read_bytes())
    provenance = json.loads((out / "tiny-test.npz.json").read_text())
    provenance["identity"] = "of other weights"
    (out / "tiny-test.npz.json").write_text(json.dumps(provenance))
    code, _, said = run(capsys, *arguments)
    assert code == 0
    assert "Wrote 64 features" in said


def test_a_rehearsal_says_what_it_is(capsys, monkeypatch, tmp_path):
    pytest.importorskip("torch", reason="needs the extra vision")
    from picture_layouts import write_class_folders

    from marginshot.cli import reproduce

    monkeypatch.setattr(reproduce, "load_recipe", lambda name: parse_recipe(name, TINY))
    data, out = tmp_path / "data", tmp_path / "runs"
    write_class_folders(data / "base", tuple(f"class{k:02d}" for k in range(30)), per_class=4, side=20)
    write_class_folders(data / "novel", tuple(f"new{k}" for k in range(6)), per_class=17, side=20)
    arguments = ("reproduce", "tiny", "--data", str(data), "--out", str(out), "--accelerator", "cpu", "-j", "1")
    (tmp_path / "run").mkdir()  # a folder of any name beside the output is no reason to refuse
    code, printed, said = run(capsys, *arguments, "--dry-run")
    assert (code, printed, out.exists()) == (0, "", False), said
    assert "24 classes, 96 pictures of 16 px" in said
    assert "6 classes, 102 pictures, to tiny-test.npz" in said
    assert "nothing was done" in said
    code, printed, said = run(capsys, *arguments, "--epochs", "1", "--tasks", "3", "--checkpoint-steps", "1")
    assert code == 0, said
    assert "Trained 1 epochs" in said
    assert "a rehearsal: 1 epochs" in " ".join(printed.split())
    code, _, said = run(capsys, *arguments, "--epochs", "2")
    assert code == 2
    assert "epochs was 1 and is now 2. Choose another --out" in said


def test_stages_start_from_one_another_and_go_on_after_a_kill(capsys, monkeypatch, tmp_path):
    pytest.importorskip("torch", reason="needs the extra vision")
    from picture_layouts import write_class_folders

    from marginshot.cli import reproduce

    monkeypatch.setattr(reproduce, "load_recipe", lambda name: parse_recipe(name, TINY.replace("[test]", STAGES)))
    data = tmp_path / "data"
    write_class_folders(data / "base", tuple(f"class{k:02d}" for k in range(30)), per_class=4, side=20)
    write_class_folders(data / "novel", tuple(f"new{k}" for k in range(6)), per_class=17, side=20)

    def arguments(out):
        return ("reproduce", "tiny", "--data", str(data), "--out", str(out), "--accelerator", "cpu", "-j", "1")

    code, _, said = run(capsys, *arguments(tmp_path / "whole"))
    assert code == 0, said
    train = reproduce.run_training
    monkeypatch.setattr(reproduce, "run_training", killed_at_second_call(train))
    out = tmp_path / "killed"
    assert run(capsys, *arguments(out))[0] == 130
    monkeypatch.setattr(reproduce, "run_training", train)
    code, _, said = run(capsys, *arguments(out), "--dry-run")
    assert "24 classes, 96 pictures of 16 px, 2 epochs of 6 steps of 16" in said
    assert "24 pictures; 2 epochs are done." in said
    assert "Train conv4 from the weights of tiny-stage1 on " in said
    code, _, said = run(capsys, *arguments(out))
    assert code == 0, said
    assert said.startswith(f"Training is finished: {out / 'tiny-stage1'}.")
    for stage in ("tiny-stage1", "tiny"):
        weights = [(folder / stage / "best.safetensors").read_bytes() for folder in (tmp_path / "whole", out)]
        assert weights[0] == weights[1], stage
    # Another first stage: the second one in the folder did not start from it.
    (out / "tiny-stage1" / "best.safetensors").write_bytes((out / "tiny" / "best.safetensors").read_bytes())
    code, _, said = run(capsys, *arguments(out))
    assert code == 2
    assert "tiny holds another run: start_from was" in " ".join(said.split())


def killed_at_second_call(train):
    """``train``, whose second call is interrupted before it begins."""
    calls = []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(*arguments)

    return killed


def test_extract_writes_what_evaluate_reads(capsys, tmp_path):
    pytest.importorskip("torch", reason="needs the extra vision")
    from picture_layouts import write_class_folders
    from test_extraction import publish

    write_class_folders(tmp_path / "data", ("a", "b", "c", "d", "e"), per_class=6, side=20)
    publish(tmp_path / "model.pth.tar", "conv4", "conv4", "fc")
    out = tmp_path / "features.parquet"
    arguments = ["extract", str(tmp_path / "model.pth.tar"), "--backbone", "conv4", "--data", str(tmp_path / "data")]
    arguments += ["--image-size", "16", "--device", "cpu", "--out", str(out)]
    code, printed, said = run(capsys, *arguments)
    assert (code, printed) == (0, ""), said
    assert "Wrote 64 features of 30 pictures in 5 classes" in said
    code, printed, said = run(
        capsys, "evaluate", str(out), "--shot", "1", "--query", "5", "--tasks", "5", "--methods", "simpleshot"
    )
    assert code == 0, said
    assert "SimpleShot" in printed
    code, _, said = run(capsys, *arguments)
    assert code == 2
    assert "exists and was not written by this command" in said or "Use --force" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "miniimagenet", "--out", "x"], "needs the folder of its files: pass --data"),
        (["train", "glyphs", "--backbone", "vgg", "--out", "x"], "There is no backbone 'vgg'"),
        (["extract", "efficientnet-lite0", "--out", "x.csv"], "features are written as .npz or .parquet; got 'x.csv'"),
        (["reproduce", "everything"], "There is no recipe 'everything'; choose one of cub-resnet18"),
        (["reproduce"], "name a recipe; see --list"),
        (["reproduce", "mini-cub-resnet18", "--data", "."], "is tested on cub: give its folder"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(capsys, monkeypatch, tmp_path, arguments, message):
    pytest.importorskip("torch", reason="needs the extra vision")
    monkeypatch.chdir(tmp_path)
    code, printed, said = run(capsys, *arguments)
    assert (code, printed) == (2, "")
    assert len(said.splitlines()) == 1
    assert message in said
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_mistakes_of_extract_are_reported_before_torch_is_loaded(tmp_path):
    code = (
        "import sys\nfrom marginshot.cli.app import main\n"
        "for wrong in ('data x', 'dataset x', 'split x', 'batch-size 0', 'workers -1'):\n"
        "    try:\n        main(['extract', 'resnet18', '--out', 'x.npz', *f'--{wrong}'.split()])\n"
        "    except SystemExit as end:\n        assert end.code == 2, wrong\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert [line.partition(";")[0] for line in done.stderr.splitlines()] == [
        "Error: x is not a folder",
        "Error: There is no dataset 'x'",
        "Error: folder has no split 'x'",
        "Error: Invalid value for '--batch-size': at least 1",
        "Error: Invalid value for '--workers': at least 0",
    ]


def test_the_list_of_recipes(capsys):
    code, printed, _ = run(capsys, "reproduce", "--list")
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines()] == recipe_names()


def test_help_does_not_import_torch():
    code = (
        "import sys\nfrom marginshot.cli.app import main\n"
        "try:\n    main(['train', '--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("command", ["train", "extract", "reproduce"])
def test_without_the_extra_the_command_names_it(command, tmp_path):
    arguments = {
        "train": ["train", "glyphs", "--out", "run"],
        "extract": ["extract", "efficientnet-lite0", "--data", ".", "--out", "x.npz"],
        "reproduce": ["reproduce", "glyphs"],
    }[command]
    code = f"import sys\nsys.modules['torch'] = None\nfrom marginshot.cli.app import main\nmain({arguments!r})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert process.returncode == 2
    assert "pip install 'marginshot[vision]'" in process.stderr
    assert list(tmp_path.iterdir()) == []
