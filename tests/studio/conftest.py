import numpy as np
import pytest

from marginshot.data.pictures import read_picture
from marginshot.labelling import Session
from marginshot.labelling.items.encoders import PictureEncoder


@pytest.fixture
def client(tmp_path):
    from serving import rows_of_three_classes, running  # which skips where the extra is missing

    with running(Session.from_embeddings(rows_of_three_classes()), tmp_path / "cache") as client:
        yield client


@pytest.fixture
def labelled(client):
    """A client whose session has two classes, and answers."""
    client.act("label", rows=[0, 3], name="ash")
    client.wait_for_answers(client.act("label", rows=[1], name="oak")["version"])
    return client


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of 24 pictures, reddish and bluish ones, with an encoder that needs no network: the mean colour."""
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")
    monkeypatch.setattr(PictureEncoder, "load", lambda self: None)
    monkeypatch.setattr(PictureEncoder, "prepare", lambda self, path: np.array(read_picture(path).resize((1, 1)))[0, 0])
    monkeypatch.setattr(PictureEncoder, "encode", lambda self, prepared: np.stack(prepared).astype(np.float32))
    monkeypatch.setenv("MARGINSHOT_SESSIONS", str(tmp_path / "sessions"))
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(24):
        colour = ((200, 40, 40), (40, 40, 200))[number % 2] + rng.integers(-30, 30, 3)
        image.new("RGB", (400, 300), tuple(colour.tolist())).save(folder / f"{number:02d}.png")
    return folder
