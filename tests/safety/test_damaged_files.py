"""Files damaged at random, by a fixed seed: every reader answers in a sentence of ours, whatever its library raised.

``make fuzz`` runs many more; MARGINSHOT_FUZZ is the number of damages for each file.
"""

import os
import warnings
import zlib

import numpy as np
import pytest
from mutations import KINDS, OURS, mutate

from marginshot._lib.reading import DamagedFileError, read_npz
from marginshot.data.features import load_features

N_MUTATIONS = int(os.environ.get("MARGINSHOT_FUZZ", "12"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_damage_raises_anything_but_our_own_sentences(tmp_path, kind):
    if kind.__name__ in ("vision", "pictures"):
        pytest.importorskip("torch", reason="needs the extra vision")
    strangers = []
    for reader in list(kind(tmp_path)):
        whole = reader.path.read_bytes()
        reader.read()
        for seed in range(-(-N_MUTATIONS // reader.cost)):
            damaged = mutate(whole, np.random.default_rng([seed, zlib.crc32(reader.path.name.encode())]))
            reader.path.write_bytes(damaged)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    reader.read()
            except OURS as error:
                told = str(error)
                if not told.rstrip().endswith((".", ")", "smaller")) or (
                    "allow pickle" in told and damaged[:2] != b"PK"
                ):
                    strangers.append((reader.path.name, seed, f"is not a sentence: {told}"))
            except Exception as error:
                strangers.append((reader.path.name, seed, repr(error)))
        reader.path.write_bytes(whole)
    assert not strangers, "\n".join(map(str, strangers))


def test_a_truncated_archive_is_never_told_to_be_trusted(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.ones((4, 3)), y=np.array([0, 0, 1, 1]))
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedFileError, match="is damaged, or not a readable"):
            load_features(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_not_called_damaged(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.ones((4, 3)), y=np.array([0, 0, 1, 1]))
    path.chmod(0)
    with pytest.raises(PermissionError):
        load_features(path)


def test_what_the_system_says_is_not_called_damage(tmp_path):
    with pytest.raises(IsADirectoryError):
        read_npz(tmp_path, "an archive")
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "none.npz", "an archive")
