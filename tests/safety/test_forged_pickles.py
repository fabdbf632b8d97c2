"""Pickles forged to make NumPy read memory that is not theirs, read in a process that must live."""

import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest

from marginshot.vision.datasets.array_pickles import UnsafePickleError, load_arrays
from marginshot.vision.datasets.splits import DatasetMismatchError

_ADDRESS = struct.pack("<Q", 0x4141414141414141)


class Global:
    """Pickled as the bare name of an object, with states set on it."""

    def __init__(self, module, name, *states):
        self.module, self.name, self.states = module, name, states


class Call:
    """Pickled as a call, with a state set on what it returns."""

    def __init__(self, function, arguments, *states):
        self.function, self.arguments, self.states = function, arguments, states


class Forger(pickle._Pickler):
    """Python's own pickler, taught to write calls that no honest object asks for."""

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Global):
            self.write(f"c{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Call):
            self.save(obj.function)
            self.save(obj.arguments)
            self.write(pickle.REDUCE)
        else:
            return super().save(obj, save_persistent_id)
        for state in obj.states:
            self.save(state)
            self.write(pickle.BUILD)
        return None


DTYPE, NDARRAY = Global("numpy", "dtype"), Global("numpy", "ndarray")
RECONSTRUCT = Global("numpy.core.multiarray", "_reconstruct")
FROMBUFFER = Global("numpy.core.numeric", "_frombuffer")
SCALAR = Global("numpy.core.multiarray", "scalar")


def plain(text):
    return Call(DTYPE, (text, False, True))


def object_in_void():
    """A void type of eight bytes with a field that is said to be an object."""
    fields = {"a": (plain("O8"), 0)}
    return Call(DTYPE, ("V8", False, True), (3, "|", None, ("a",), fields, 8, 1, 0))


def numbers_become_objects():
    """An honest type of numbers whose state says that it holds objects."""
    return Call(DTYPE, ("u8", False, True), (3, "<", None, ("a",), {"a": (plain("O8"), 0)}, 8, 8, 63))


def array(dtype, raw=_ADDRESS, shape=(1,)):
    return Call(RECONSTRUCT, (NDARRAY, (0,), b"b"), (1, shape, dtype, False, raw))


FORGERIES = {
    "object field over raw bytes": array(object_in_void()),
    "the same through _frombuffer": Call(FROMBUFFER, (_ADDRESS, object_in_void(), (1,), "C")),
    "object type over raw bytes": array(plain("O8")),
    "object type through _frombuffer": Call(FROMBUFFER, (_ADDRESS, plain("O8"), (1,), "C")),
    "numbers that become objects": array(numbers_become_objects()),
    "a scalar that is an object": Call(SCALAR, (plain("O8"), _ADDRESS)),
    "a scalar with a field that is one": Call(SCALAR, (object_in_void(), _ADDRESS)),
    "more rows than bytes": array(plain("u1"), b"12", (10**9,)),
    "more rows than bytes through _frombuffer": Call(FROMBUFFER, (b"12", plain("u1"), (10**9,), "C")),
    "fewer bytes than none": array(plain("u1"), b"12", (-2, -1)),
    "an array made over a buffer": Call(NDARRAY, ((1,), plain("O8"), _ADDRESS)),
    "a type of types": Call(DTYPE, ([("a", "O8")],)),
    "a sub-array type": Call(DTYPE, ("V8", False, True), (3, "|", (plain("O8"), (1,)), None, None, 8, 1, 0)),
    "numbers that are a mebibyte each": Call(DTYPE, ("V1048576", False, True)),
    "bytes of a number": Call(Global("builtins", "bytes"), (10**11,)),
    "a bytearray of a number": Call(Global("builtins", "bytearray"), (10**11,)),
    "bytes that are unpacked": Call(Global("_codecs", "encode"), ("x", "zip")),
    "a stand-in given an attribute": Global("numpy", "dtype", {"__call__": Global("builtins", "list")}),
    "a stand-in given a slot": Global("numpy", "dtype", (None, {"__call__": Global("builtins", "list")})),
    "a state that is none": Call(RECONSTRUCT, (NDARRAY, (0,), b"b"), 5),
    "an array in itself": array(array(plain("u1"), b"1")),
}


def write_forgery(path, value):
    with path.open("wb") as file:
        Forger(file, protocol=2).dump({"image_data": value, "class_dict": {}})


READ = """
import sys
from pathlib import Path
from marginshot.vision.datasets.pickles import open_mini_cache
from marginshot.vision.datasets.splits import DatasetMismatchError
for path in sys.argv[1:]:
    print("reading", path, flush=True)
    try:
        images = open_mini_cache(Path(path))
        print(repr(images))
    except DatasetMismatchError as error:
        print("refused", error)
"""


def test_no_forged_pickle_reaches_memory(tmp_path):
    paths = []
    for place, value in enumerate(FORGERIES.values()):
        paths.append(tmp_path / f"{place}.pkl")
        write_forgery(paths[-1], value)
    done = subprocess.run([sys.executable, "-c", READ, *map(str, paths)], capture_output=True, text=True)
    read = done.stdout.count("reading ")
    assert done.returncode == 0, f"{list(FORGERIES)[read - 1]}: {done.returncode}\n{done.stderr}"
    assert done.stdout.count("refused ") == len(FORGERIES), done.stdout


def test_the_forgery_of_the_trial_is_deadly_to_an_unpickler_that_hands_out_numpy(tmp_path):
    """The attack is a real one: NumPy's own constructors, and no others, follow the planted address."""
    write_forgery(tmp_path / "x.pkl", FORGERIES["object field over raw bytes"])
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))['image_data'])"
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "x.pkl")], capture_output=True)
    assert done.returncode < 0


@pytest.mark.parametrize("name", ["object field over raw bytes", "object type over raw bytes", "bytes of a number"])
def test_a_forgery_is_told_from_damage(tmp_path, name):
    write_forgery(tmp_path / "x.pkl", FORGERIES[name])
    with pytest.raises(UnsafePickleError, match=r"x\.pkl asks for .*Do not trust this file"):
        load_arrays(tmp_path / "x.pkl")


def test_containers_nested_without_end_are_refused(tmp_path):
    content = []
    content.append(content)
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(UnsafePickleError, match="more than 8 containers"):
        load_arrays(tmp_path / "x.pkl")


def test_lists_that_refer_to_each_other_a_million_times_a_million_are_built_once(tmp_path):
    content = [1]
    for _ in range(6):
        content = [content] * 1000
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(content))
    loaded = load_arrays(tmp_path / "x.pkl")
    assert loaded[0][0][0][0][0][0] == [1]
    assert loaded[0] is loaded[999]


@pytest.mark.parametrize("dtype", [">i4", "<f8", "|u1", "?", "<f2", ">u8"])
@pytest.mark.parametrize("protocol", [1, 2, 4, 5])
def test_arrays_of_any_plain_numbers_come_back(tmp_path, dtype, protocol):
    array = np.asfortranarray(np.arange(12).reshape(3, 4).astype(dtype))
    content = {"turned": array, "straight": np.ascontiguousarray(array), "empty": array[:0], "one": array[0, 1]}
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(content, protocol=protocol))
    loaded = load_arrays(tmp_path / "x.pkl")
    for name, value in content.items():
        np.testing.assert_array_equal(loaded[name], value)
        assert loaded[name].dtype == value.dtype


def test_a_pickle_that_cannot_be_opened_is_not_called_damaged(tmp_path):
    with pytest.raises(IsADirectoryError):
        load_arrays(tmp_path)
    (tmp_path / "cut.pkl").write_bytes(pickle.dumps(list(range(1000)))[:-20])
    with pytest.raises(DatasetMismatchError, match="damaged"):
        load_arrays(tmp_path / "cut.pkl")
