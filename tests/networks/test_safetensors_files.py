import json

import numpy as np
import pytest

from marginshot.networks.safetensors_files import read_safetensors


def written(path, table, content):
    head = json.dumps(table).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + content)
    return path


def test_arrays_are_those_of_the_library(tmp_path):
    library = pytest.importorskip("safetensors.numpy", reason="needs the extra vision")
    content = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([7, 8])}
    library.save_file(content, tmp_path / "weights.safetensors", metadata={"format": "pt"})
    found = read_safetensors(tmp_path / "weights.safetensors")
    assert sorted(found) == ["a", "n"]
    for name, array in content.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, r"w of shape \[3\] over bytes 0 to 8"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}, "over bytes 4 to 12"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [8, 0]}, "over bytes 8 to 0"),
        ({"dtype": "F16", "shape": [4], "data_offsets": [0, 8]}, "w is of type F16"),
    ],
)
def test_no_array_reaches_past_the_file(tmp_path, entry, message):
    path = written(tmp_path / "weights.safetensors", {"w": entry}, bytes(8))
    with pytest.raises(ValueError, match=message):
        read_safetensors(path)


def test_other_files_are_reported(tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match=r"weights\.safetensors is damaged, or not a \.safetensors file"):
        read_safetensors(path)
