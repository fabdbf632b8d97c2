"""Models that would be downloaded, where nothing can be."""

import pytest

from marginshot.labelling.items.encoders import TextEncoder
from marginshot.networks.hub import is_online

hub = pytest.importorskip("huggingface_hub", reason="comes with the extras vision and text")


@pytest.fixture
def asked(monkeypatch):
    """A hub that cannot be reached; lists what it was asked for."""
    names = []

    def fail(self, name, **options):
        names.append(name)
        raise ConnectionError("no route to host")

    monkeypatch.setattr(hub.HfApi, "model_info", fail)
    return names


def test_a_model_that_cannot_be_had_is_asked_for_once(asked):
    with pytest.raises(
        ValueError,
        match=r"The text model 'no-such-model' could not be loaded \(huggingface.co cannot be asked for "
        r"sentence-transformers/no-such-model: ConnectionError\); .* use minilm",
    ):
        TextEncoder("no-such-model").load()
    assert asked == ["sentence-transformers/no-such-model"]


def test_an_earlier_download_does_without_the_hub(asked, monkeypatch):
    monkeypatch.setattr(hub, "snapshot_download", lambda name, local_files_only: name)
    assert not is_online("somebody/model")
    told = hub.ModelInfo(id="somebody/model", sha="0" * 40, siblings=[])
    monkeypatch.setattr(hub.HfApi, "model_info", lambda self, name, **options: told)
    assert is_online("somebody/model")
