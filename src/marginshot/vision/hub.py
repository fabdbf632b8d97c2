"""Models that are downloaded: asked for once, with a time limit, because their libraries repeat a failed request."""

from __future__ import annotations

_PATIENCE = 10.0  # seconds


def is_online(repository: str) -> bool:
    """Whether the Hugging Face hub has a model; False where the hub is silent and an earlier download is there.

    Raises OSError where the model is on neither side.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        HfApi().model_info(repository, timeout=_PATIENCE)
    except RepositoryNotFoundError as error:
        raise OSError(f"there is no model {repository} on huggingface.co") from error
    except Exception as error:  # whatever the HTTP library of the day raises
        try:
            snapshot_download(repository, local_files_only=True)
        except OSError:
            raise OSError(f"huggingface.co cannot be asked for {repository}: {type(error).__name__}") from error
        return False
    return True


def first_line(error: Exception) -> str:
    """The beginning of what a library says; its kind where it says nothing."""
    return next(iter(str(error).strip().splitlines()), "").rstrip(".") or type(error).__name__
