import pytest

pytest.importorskip("starlette", reason="needs extra `studio`")
pytest.importorskip("uvicorn", reason="needs extra `studio`")

from serving import rows_of_three_classes, running

from marginshot.labelling import Session


@pytest.fixture
def client(tmp_path):
    with running(Session.from_embeddings(rows_of_three_classes()), tmp_path / "cache") as client:
        yield client


@pytest.fixture
def labelled(client):
    """A client whose session has two classes, and answers."""
    client.act("label", rows=[0, 3], name="ash")
    client.wait_for_answers(client.act("label", rows=[1], name="oak")["version"])
    return client
