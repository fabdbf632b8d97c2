"""What a download is called."""

from pathlib import Path

import pytest

from marginshot.studio.downloads import name_of


@pytest.mark.parametrize(
    ("source", "name"),
    [("/home/a/photos", "photos"), ("texts.csv", "texts"), (None, "embeddings"), ("/x/caf\udce9", "caf?")],
)
def test_a_download_has_a_name_that_http_can_carry(source, name):
    found = name_of(None if source is None else Path(source))
    assert found.encode().decode() == name
