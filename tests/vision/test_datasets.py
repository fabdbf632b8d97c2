from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra vision")

from numpy.testing import assert_array_equal
from picture_layouts import (
    picture,
    png,
    sort_into_class_folders,
    write_category_split,
    write_class_folders,
    write_closer_look,
    write_csv_lists,
    write_cub,
    write_easyfsl,
    write_mini_cache,
    write_split_pictures,
    write_tiered_archives,
    write_tiered_pickles,
)
from PIL import Image

from marginshot.data.pictures import read_picture
from marginshot.vision.datasets import (
    CorruptImageError,
    DatasetMismatchError,
    UnsafePickleError,
    drop_corrupt,
    open_dataset,
)
from marginshot.vision.datasets.array_pickles import load_arrays
from marginshot.vision.datasets.images import ArrayImages, EncodedImages, FileImages
from marginshot.vision.datasets.splits import published_classes


@pytest.mark.parametrize(
    ("dataset", "sizes"),
    [("miniimagenet", (64, 16, 20)), ("tieredimagenet", (351, 97, 160)), ("cub", (100, 50, 50))],
)
def test_published_class_lists(dataset, sizes):
    splits = published_classes(dataset)
    assert tuple(len(classes) for classes in splits.values()) == sizes
    assert len(set().union(*splits.values())) == sum(sizes)


@pytest.mark.parametrize("split", ["base", "validation", "test"])
def test_every_layout_of_miniimagenet_gives_the_same(tmp_path, small_splits, split):
    splits = small_splits("miniimagenet", 3)
    for word, classes in splits.items():
        write_class_folders(tmp_path / "folders" / word, classes, side=84)
        write_split_pictures(tmp_path / "parts", classes, side=84)
    write_csv_lists(tmp_path / "lists", splits, side=84)
    write_csv_lists(tmp_path / "sorted", splits, side=84)
    sort_into_class_folders(tmp_path / "sorted" / "images")
    write_mini_cache(tmp_path / "cache", splits)
    write_category_split(tmp_path / "categories", splits)
    write_closer_look(tmp_path / "closer", splits, side=84)
    write_easyfsl(tmp_path / "easy", splits, side=84)
    kinds = ("folders", "lists", "cache", "categories", "closer", "easy", "parts", "sorted")
    opened = [open_dataset("miniimagenet", tmp_path / kind, split, subset=True) for kind in kinds]
    for images in opened:
        assert images.classes == splits[split]
        assert images.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        # JPEG changes pixels a little; the cache holds them as they are.
        difference = np.asarray(images.source.read(4), dtype=float) - np.asarray(picture(1, 1, 84), dtype=float)
        assert np.abs(difference).mean() < 30
    assert np.array_equal(np.asarray(opened[2].source.read(4)), np.asarray(picture(1, 1, 84)))


def test_the_whole_miniimagenet_without_subset(tmp_path):
    # One cache file with all 64 classes and 600 pictures each, of a single pixel.
    classes = published_classes("miniimagenet")["base"]
    rows = {name: list(range(600 * k, 600 * (k + 1))) for k, name in enumerate(classes)}
    content = {"image_data": np.zeros((600 * 64, 1, 1, 3), dtype=np.uint8), "class_dict": rows}
    path = tmp_path / "mini-imagenet-cache-train.pkl"
    path.write_bytes(pickle.dumps(content))
    images = open_dataset("miniimagenet", tmp_path, "base")
    assert (images.classes, len(images)) == (classes, 38_400)
    rows[classes[5]] = rows[classes[5]][:17]
    del rows[classes[9]]
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DatasetMismatchError, match=f"misses 1 of the 64 base classes of miniimagenet: {classes[9]}"):
        open_dataset("miniimagenet", tmp_path, "base")
    rows[classes[9]] = list(range(600))
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DatasetMismatchError, match=f"1 classes with too few pictures \\({classes[5]}: 17 of 600\\)"):
        open_dataset("miniimagenet", tmp_path, "base")


def test_old_keys_of_python_2(tmp_path, small_splits):
    classes = small_splits("miniimagenet", 2)["test"]
    content = {
        b"image_data": np.zeros((4, 2, 2, 3), dtype=np.uint8),
        b"class_dict": {classes[0].encode(): [0, 1], classes[1].encode(): [2, 3]},
    }
    (tmp_path / "mini-imagenet-cache-test.pkl").write_bytes(pickle.dumps(content, protocol=2))
    assert open_dataset("miniimagenet", tmp_path, "test", subset=True).classes == classes


def test_a_list_with_another_split_is_named(tmp_path, small_splits):
    splits = small_splits("miniimagenet", 2)
    write_csv_lists(tmp_path, {**splits, "test": splits["base"]}, side=8)
    foreign = splits["base"][0]
    with pytest.raises(DatasetMismatchError, match=rf"2 classes that are not in the test split.*{foreign} \(base\)"):
        open_dataset("miniimagenet", tmp_path, "test", subset=True)


def test_listed_pictures_that_are_missing(tmp_path, small_splits):
    splits = small_splits("miniimagenet", 2)
    write_csv_lists(tmp_path, splits, side=8)
    lost = tmp_path / "images" / f"{splits['test'][0]}00000001.jpg"
    lost.unlink()
    with pytest.raises(DatasetMismatchError, match=f"test.csv lists 1 pictures that are not in .*: {lost.name}"):
        open_dataset("miniimagenet", tmp_path, "test", subset=True)


def test_tiered_pickles(tmp_path):
    write_tiered_pickles(tmp_path, (351, 2, 2), per_class=1, side=8)
    images = open_dataset("tieredimagenet", tmp_path, "base", subset=True)
    assert len(images.classes) == 351
    assert images.classes[3] == "train word 3"
    assert np.array_equal(np.asarray(images.source.read(3)), np.asarray(picture(3, 0, 8)))
    with pytest.raises(DatasetMismatchError, match=r"validation split of tieredimagenet has 97 classes, but .* has 2"):
        open_dataset("tieredimagenet", tmp_path, "validation")
    (tmp_path / "val_labels.pkl").unlink()
    with pytest.raises(DatasetMismatchError, match=r"needs val_labels\.pkl beside it"):
        open_dataset("tieredimagenet", tmp_path, "validation", subset=True)


def test_cub_as_published(tmp_path, small_splits):
    splits = small_splits("cub", 3)
    write_cub(tmp_path, tuple(sorted(sum(splits.values(), ()))), side=16)
    images = open_dataset("cub", tmp_path, "validation", subset=True)
    assert images.classes == splits["validation"]
    assert all(item.startswith(images.classes[label]) for item, label in zip(images.items, images.labels, strict=True))
    with pytest.raises(DatasetMismatchError, match="misses 47 of the 50 validation classes of cub: "):
        open_dataset("cub", tmp_path, "validation")
    (tmp_path / "CUB_200_2011" / "images" / images.items[0]).unlink()
    with pytest.raises(DatasetMismatchError, match=f"lists 1 pictures that are not in .*, first {images.items[0]}"):
        open_dataset("cub", tmp_path, "validation", subset=True)


def test_tiered_archives(tmp_path):
    write_tiered_archives(tmp_path, (351, 97, 2), per_class=1, side=8)
    images = open_dataset("tieredimagenet", tmp_path, "validation", subset=True)
    assert len(images.classes) == 97
    assert images.classes[:2] == ("351", "352")
    assert np.array_equal(np.asarray(images.source.read(3)), np.asarray(picture(3, 0, 8)))
    with pytest.raises(DatasetMismatchError, match=r"test split of tieredimagenet has 160 classes, but .* has 2"):
        open_dataset("tieredimagenet", tmp_path, "test")
    np.savez(tmp_path / "test_images.npz", images=np.zeros((3, 8, 8, 3), np.uint8))
    with pytest.raises(DatasetMismatchError, match="has 3 pictures but 2 labels"):
        open_dataset("tieredimagenet", tmp_path, "test", subset=True)


def test_cub_as_it_unpacks_is_a_folder_too(tmp_path, small_splits):
    classes = tuple(sorted(sum(small_splits("cub", 2).values(), ())))
    write_cub(tmp_path, classes, side=16)
    (tmp_path / "CUB_200_2011" / "attributes").mkdir()
    (tmp_path / "CUB_200_2011" / "classes.txt").unlink()
    (tmp_path / "attributes.txt").write_text("1 has_bill_shape::curved\n")
    assert open_dataset("folder", tmp_path, "all").classes == classes
    assert open_dataset("cub", tmp_path, "test", subset=True).classes == small_splits("cub", 2)["test"]


def test_json_lists_split_any_folder(tmp_path):
    splits = {"base": ("a", "b"), "validation": ("c",), "test": ("d", "e")}
    write_easyfsl(tmp_path / "easy", splits, side=8)
    write_closer_look(tmp_path / "closer", splits, side=8)
    for kind in ("easy", "closer"):
        for split, classes in splits.items():
            images = open_dataset("folder", tmp_path / kind, split)
            assert images.classes == classes
            assert len(images) == 3 * len(classes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"class_names": ["a"]}', "has neither class_names and class_roots"),
        ('{"class_names": ["a", "a"], "class_roots": ["images/a", "images/a"]}', "one folder for each of its classes"),
        ('{"class_names": ["a"], "class_roots": ["../../secret"]}', "lists ../../secret, of which nothing is in"),
        (
            '{"label_names": ["a"], "image_names": ["images/a/0000.jpg"], "image_labels": [4]}',
            "labels up to 4",
        ),
        (
            '{"label_names": ["a"], "image_names": ["images/a/0000.jpg", "images/../x.jpg"], "image_labels": [0, 0]}',
            r"lists 1 pictures that are not in .*, first images/../x.jpg",
        ),
        ("[]", "is damaged, or not a list of classes"),
    ],
)
def test_odd_json_lists_are_refused(tmp_path, content, message):
    write_class_folders(tmp_path / "data" / "images", ("a",), side=8)
    (tmp_path / "secret").mkdir()
    picture(0, 0, 8).save(tmp_path / "data" / "x.jpg")
    (tmp_path / "data" / "novel.json").write_text(content)
    with pytest.raises(DatasetMismatchError, match=message):
        open_dataset("folder", tmp_path / "data", "test")


def test_class_folders_found_at_any_depth_but_only_once(tmp_path, small_splits):
    classes = small_splits("tieredimagenet", 2)["test"]
    write_class_folders(tmp_path / "ILSVRC" / "train", classes, side=8)
    assert open_dataset("tieredimagenet", tmp_path, "test", subset=True).classes == classes
    write_class_folders(tmp_path / "copy", classes[:1], side=8)
    with pytest.raises(DatasetMismatchError, match=f"Class {classes[0]} is there twice"):
        open_dataset("tieredimagenet", tmp_path, "test", subset=True)


def test_a_class_in_two_parts_is_one_class(tmp_path, small_splits):
    classes = tuple(sorted(sum(small_splits("miniimagenet", 2).values(), ())))
    write_split_pictures(tmp_path / "split_minidataset-main", classes, per_class=6, side=8)
    images = open_dataset("miniimagenet", tmp_path, "validation", subset=True)
    assert images.classes == small_splits("miniimagenet", 2)["validation"]
    assert images.counts().tolist() == [6, 6]
    # In the order of the file names, as if all were in one folder: 0 and 5 are in val.
    assert [item.split("/")[1] for item in images.items[:6]] == ["val", "train", "train", "train", "train", "val"]
    assert [Path(item).name for item in images.items[:6]] == [f"{images.classes[0]}{k:08d}.jpg" for k in range(6)]
    with pytest.raises(DatasetMismatchError, match="misses 14 of the 16 validation classes"):
        open_dataset("miniimagenet", tmp_path, "validation")


def test_imagenets_own_validation_pictures_are_no_part(tmp_path):
    name = published_classes("cub")["test"][0]
    for part, first, count in (("train", 0, 50), ("val", 100, 11)):
        (tmp_path / part / name).mkdir(parents=True)
        for index in range(first, first + count):
            (tmp_path / part / name / f"{index}.jpg").write_bytes(b"")
    with pytest.raises(DatasetMismatchError, match=r"there twice, in .*, with 61 pictures together; .* at most 60"):
        open_dataset("cub", tmp_path, "test", subset=True)


def test_a_listed_picture_in_two_folders_is_named(tmp_path, small_splits):
    write_csv_lists(tmp_path, small_splits("miniimagenet", 2), side=8)
    sort_into_class_folders(tmp_path / "images")
    first = sorted((tmp_path / "images").rglob("*.jpg"))[0]
    (tmp_path / "images" / "copy").mkdir()
    shutil.copy(first, tmp_path / "images" / "copy" / first.name)
    split = next(s for s, names in small_splits("miniimagenet", 2).items() if first.parent.name in names)
    with pytest.raises(DatasetMismatchError, match=f"lists {first.name}, which is both copy/{first.name} and n"):
        open_dataset("miniimagenet", tmp_path, split, subset=True)


def test_no_known_layout(tmp_path):
    with pytest.raises(DatasetMismatchError, match="holds no layout of cub for the test split"):
        open_dataset("cub", tmp_path, "test")


def test_any_folder(tmp_path):
    write_class_folders(tmp_path, ("Greek/alpha", "Greek/beta", "Latin/a", "cats", "dogs"), side=8)
    images = open_dataset("folder", tmp_path, "all")
    assert images.classes == ("Greek/alpha", "Greek/beta", "Latin/a", "cats", "dogs")
    base, validation = (
        set(open_dataset("folder", tmp_path, split, seed=1).classes) for split in ("base", "validation")
    )
    assert len(validation) == 2
    assert base | validation == set(images.classes)
    assert not base & validation
    with pytest.raises(DatasetMismatchError, match="has no test split"):
        open_dataset("folder", tmp_path, "test")


def test_pictures_in_hidden_folders_are_not_taken(tmp_path):
    write_class_folders(tmp_path, ("cats", "dogs", "cats/.thumbs/small"), side=8)
    images = open_dataset("folder", tmp_path, "all")
    assert images.classes == ("cats", "dogs")
    assert not [item for item in images.items if ".thumbs" in item]


def test_a_folder_with_its_own_splits(tmp_path):
    write_class_folders(tmp_path, ("a", "b", "c"), side=8)
    (tmp_path / "splits.csv").write_text("class,split\na,base\nb,test\nc,validation\n")
    assert open_dataset("folder", tmp_path, "test").classes == ("b",)
    (tmp_path / "splits.csv").write_text("class,split\na,base\nd,test\n")
    with pytest.raises(DatasetMismatchError, match="misses the classes d"):
        open_dataset("folder", tmp_path, "test")


def test_a_folder_with_split_folders(tmp_path):
    for word, name in (("train", "a"), ("val", "b"), ("test", "c")):
        write_class_folders(tmp_path / word, (name,), side=8)
    assert [open_dataset("folder", tmp_path, split).classes for split in ("base", "validation", "test")] == [
        ("a",),
        ("b",),
        ("c",),
    ]


def test_an_empty_class_is_named(tmp_path):
    write_class_folders(tmp_path, ("cats", "dogs"), side=8)
    (tmp_path / "birds").mkdir()
    with pytest.raises(DatasetMismatchError, match="classes without pictures: birds"):
        open_dataset("folder", tmp_path, "all")


@pytest.mark.parametrize("damage", [b"not a picture", png(0, 0)[:60], b""])
def test_a_corrupt_picture_is_named(tmp_path, damage):
    write_class_folders(tmp_path, ("cats", "dogs"), side=8)
    bad = tmp_path / "dogs" / "0001.jpg"
    bad.write_bytes(damage)
    images = open_dataset("folder", tmp_path, "all")
    with pytest.raises(CorruptImageError, match=r"dogs/0001\.jpg cannot be read as a picture"):
        images.source.read(4)
    kept, problems = drop_corrupt(images)
    assert kept.items == tuple(item for item in images.items if item != "dogs/0001.jpg")
    assert len(problems) == 1


def test_files_and_bytes_are_read_as_label_reads_them(tmp_path):
    turned = Image.fromarray(np.zeros((10, 6, 3), dtype=np.uint8))
    exif = turned.getexif()
    exif[0x0112] = 6  # a quarter turn
    turned.save(tmp_path / "turned.jpg", exif=exif)
    Image.new("RGBA", (10, 6), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.fromarray(np.full((6, 10), 30_000, dtype=np.uint16)).save(tmp_path / "deep.png")
    names = ("turned.jpg", "clear.png", "deep.png")
    encoded = EncodedImages(tmp_path, tuple((tmp_path / name).read_bytes() for name in names), (0, 1, 2))
    for index, name in enumerate(names):
        expected = np.asarray(read_picture(tmp_path / name))
        assert expected.shape == (6, 10, 3)
        assert_array_equal(np.asarray(FileImages(tmp_path, names).read(index)), expected)
        assert_array_equal(np.asarray(encoded.read(index)), expected)


def test_a_link_to_nowhere_has_a_fingerprint(tmp_path):
    (tmp_path / "a.png").symlink_to("gone.png")
    images = FileImages(tmp_path, ("a.png",))
    nowhere = images.fingerprint()
    Image.new("RGB", (4, 4)).save(tmp_path / "gone.png")
    assert images.fingerprint() != nowhere


@pytest.mark.parametrize("kind", ["files", "bytes", "array"])
def test_another_picture_is_another_fingerprint(tmp_path, kind):
    def source(shade):
        pixels = np.full((2, 4, 4, 3), shade, dtype=np.uint8)
        if kind == "array":
            return ArrayImages(pixels)
        if kind == "bytes":
            return EncodedImages(tmp_path, (pixels[0].tobytes(), pixels[1].tobytes()), (0, 1))
        Image.fromarray(np.full((shade, 4, 3), 1, dtype=np.uint8)).save(tmp_path / "a.png")
        return FileImages(tmp_path, ("a.png",))

    first = source(3).fingerprint()
    assert source(200).fingerprint() != first


def test_a_corrupt_entry_of_a_pickle_is_named(tmp_path):
    write_tiered_pickles(tmp_path, (2, 2, 2), side=8)
    path = tmp_path / "test_images_png.pkl"
    encoded = pickle.loads(path.read_bytes())
    encoded[3] = encoded[3][:20]
    path.write_bytes(pickle.dumps(encoded))
    images = open_dataset("tieredimagenet", tmp_path, "test", subset=True)
    with pytest.raises(CorruptImageError, match=r"Entry 3 of .*test_images_png\.pkl cannot be read"):
        images.source.read(3)


class _Malicious:
    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_malicious_pickle_is_not_run(tmp_path, protocol):
    target = tmp_path / "owned"
    evil = tmp_path / "mini-imagenet-cache-test.pkl"
    evil.write_bytes(pickle.dumps({"image_data": _Malicious(str(target)), "class_dict": {}}, protocol=protocol))
    with pytest.raises(UnsafePickleError, match=r"mini-imagenet-cache-test\.pkl asks for \w+\.mkdir"):
        open_dataset("miniimagenet", tmp_path, "test")
    assert not target.exists()
    pickle.loads(evil.read_bytes())
    assert target.exists(), "the pickle would have run"


@pytest.mark.parametrize(
    ("module", "name"), [("builtins", "eval"), ("builtins", "getattr"), ("numpy", "load"), ("functools", "partial")]
)
def test_harmless_looking_helpers_are_refused_too(tmp_path, module, name):
    path = tmp_path / "x.pkl"
    path.write_bytes(b"\x80\x04\x8c" + bytes([len(module)]) + module.encode() + b"\x8c" + bytes([len(name)]))
    path.write_bytes(path.read_bytes() + name.encode() + b"\x93.")
    with pytest.raises(UnsafePickleError, match=f"asks for {module}.{name}"):
        load_arrays(path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_containers_come_back(tmp_path, protocol):
    content = {"a": np.arange(6, dtype=np.uint8).reshape(2, 3), "b": [b"bytes", (1, 2.5, None)], "c": {"x", "y"}}
    content["d"] = np.float64(1.5)
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    loaded = load_arrays(path)
    np.testing.assert_array_equal(loaded.pop("a"), content.pop("a"))
    assert loaded == content


def test_a_truncated_pickle_is_named(tmp_path, small_splits):
    write_mini_cache(tmp_path, small_splits("miniimagenet", 2))
    path = tmp_path / "mini-imagenet-cache-test.pkl"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DatasetMismatchError, match=r"cache-test\.pkl is damaged, or not a complete pickle"):
        open_dataset("miniimagenet", tmp_path, "test", subset=True)


def test_wrong_names_say_what_there_is(tmp_path):
    with pytest.raises(ValueError, match="no dataset 'cifar'; choose one of miniimagenet"):
        open_dataset("cifar", tmp_path, "test")
    with pytest.raises(ValueError, match="cub has no split 'all'; choose one of base, validation, test"):
        open_dataset("cub", tmp_path, "all")
    with pytest.raises(ValueError, match="cub needs the folder of its files: pass --data"):
        open_dataset("cub", None, "test")
    with pytest.raises(ValueError, match="is not a folder"):
        open_dataset("cub", tmp_path / "nowhere", "test")


def test_gif_and_grey_pictures_become_rgb(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("x.png", "y.gif"):
        picture(0, 0, 8).convert("L").save(tmp_path / "a" / name)
    images = open_dataset("folder", tmp_path, "all")
    assert [images.source.read(index).mode for index in range(2)] == ["RGB", "RGB"]
