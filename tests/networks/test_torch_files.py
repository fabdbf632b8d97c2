"""Weights of torch read without torch: what torch reads, and nothing that a pickle would run."""

import io
import pickle
import struct

import numpy as np
import pytest

from marginshot.networks.torch_files import UnsafeWeightsError, read_torch_arrays

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


def written(path, tensors, keys=(), numbers=b""):
    """A file in torch's old layout, its table of tensors being the pickle ``tensors``."""
    parts = [pickle.dumps(part, protocol=2) for part in (MAGIC, PROTOCOL, {})]
    path.write_bytes(b"".join([*parts, tensors, pickle.dumps(list(keys), protocol=2), numbers]))
    return path


class _Call:
    """Pickles as a call of ``function``, found in ``module``, with ``arguments``."""

    def __init__(self, function, *arguments):
        self._call = function, arguments

    def __reduce__(self):
        return self._call


def test_arrays_are_those_of_torch(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the extra vision")
    content = {
        "flat": torch.arange(6, dtype=torch.float32),
        "turned": torch.arange(24, dtype=torch.float32).reshape(2, 3, 4).permute(2, 0, 1),
        "last": torch.arange(10, dtype=torch.float32)[4:],
        "count": torch.tensor(7),
        "empty": torch.empty(0),
    }
    path = tmp_path / "weights.pth"
    torch.save(content, path, _use_new_zipfile_serialization=False)
    found = read_torch_arrays(path)
    assert sorted(found) == sorted(content)
    for name, tensor in content.items():
        np.testing.assert_array_equal(found[name], tensor.numpy())
        assert found[name].shape == tuple(tensor.shape)


def test_what_a_pickle_would_call_is_not_called(tmp_path):
    marker = tmp_path / "called"
    path = written(tmp_path / "weights.pth", pickle.dumps({"weight": _Call(io.open, str(marker), "w")}, protocol=2))
    with pytest.raises(UnsafeWeightsError, match=r"asks for .*open, which weights have no use for; nothing was run"):
        read_torch_arrays(path)
    assert not marker.exists()


def table(offset, shape, strides):
    """The pickle of one tensor on a storage of four numbers."""
    head = b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n("
    kind = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    storage = head + kind + b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04NtQ"
    arguments = [pickle.dumps(value, protocol=2)[2:-1] for value in (offset, shape, strides, False, None)]
    return storage + b"".join(arguments) + b"tRs."


NUMBERS = struct.pack("<q4f", 4, 1.0, 2.0, 3.0, 4.0)


def test_a_tensor_written_by_hand(tmp_path):
    path = written(tmp_path / "weights.pth", table(1, (3,), (1,)), ["0"], NUMBERS)
    np.testing.assert_array_equal(read_torch_arrays(path)["w"], [2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(2, (3,), (1,)), (0, (2, 2), (4, 1)), (0, (10**9,), (0,)), (0, (-1,), (1,)), (0, (4,), (1, 1))],
)
def test_no_tensor_reaches_past_its_numbers(tmp_path, offset, shape, strides):
    path = written(tmp_path / "weights.pth", table(offset, shape, strides), ["0"], NUMBERS)
    with pytest.raises(ValueError, match=r"weights\.pth is damaged|nothing was run"):
        read_torch_arrays(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02K\x01.", table(0, (4,), (1,))])
def test_other_files_are_reported(tmp_path, content):
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"weights\.pth is damaged, or not weights saved by torch"):
        read_torch_arrays(path)


def test_a_file_that_ends_early_is_reported(tmp_path):
    path = written(tmp_path / "weights.pth", table(0, (4,), (1,)), ["0"], NUMBERS[:-3])
    with pytest.raises(ValueError, match="cut off"):
        read_torch_arrays(path)
