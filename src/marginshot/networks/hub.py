"""Models on the Hugging Face hub. It is asked once, with a time limit, because libraries repeat a failed request."""

from __future__ import annotations

import os

from marginshot._lib.extras import need

_PATIENCE = 10.0  # seconds


def is_online(repository: str) -> bool:
    """Whether the hub has a model; False where the hub is silent and an earlier download is there.

    Raises OSError where the model is on neither side.
    """
    from huggingface_hub import snapshot_download

    try:
        describe(repository, None)
    except ConnectionError:
        try:
            snapshot_download(repository, local_files_only=True)
        except OSError:
            pass
        else:
            return False
        raise
    return True


def describe(repository: str, revision: str | None) -> tuple[str, dict[str, tuple[int, str]]]:
    """Commit of a ``revision`` (None: the newest), and its files: size in bytes and digest by name.

    A digest is the SHA-256 of large files, and git's hash of others. Raises ConnectionError where the hub cannot be
    asked, and OSError where it has no such model.
    """
    need("huggingface_hub")
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import (
        GatedRepoError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    constants.HF_HUB_DISABLE_TELEMETRY = True  # or it asks for a list of programs first, to tell the hub which one asks
    try:
        told = HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=_PATIENCE)
    except GatedRepoError as error:
        raise OSError(
            f"{repository} is given to known users only: accept its terms on {hub_name()}, and run `hf auth login`"
        ) from error
    except RepositoryNotFoundError as error:
        raise OSError(f"there is no model {repository} on {hub_name()}") from error
    except RevisionNotFoundError as error:
        raise OSError(f"{repository} on {hub_name()} has no revision {revision}") from error
    except OfflineModeIsEnabled as error:
        raise ConnectionError(f"HF_HUB_OFFLINE is set, and {repository} was not downloaded before") from error
    except Exception as error:  # whatever the HTTP library of the day raises
        raise ConnectionError(f"{hub_name()} cannot be asked for {repository}: {type(error).__name__}") from error
    files = told.siblings or []
    digests = {one.rfilename: (one.size or 0, one.lfs.sha256 if one.lfs else one.blob_id or "") for one in files}
    return str(told.sha), digests


def fetch(repository: str, revision: str, name: str, folder: str | os.PathLike[str]) -> None:
    """Download the file ``name`` of a commit to the same place below ``folder``."""
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(repository, name, revision=revision, local_dir=folder)
    except Exception as error:
        raise ConnectionError(
            f"{name} of {repository} could not be downloaded from {hub_name()}: {first_line(error)}"
        ) from error


def hub_name() -> str:
    """Host of the hub: huggingface.co, or that of ``$HF_ENDPOINT``."""
    from huggingface_hub import constants

    return constants.ENDPOINT.partition("://")[2]


def first_line(error: Exception) -> str:
    """The beginning of what a library says; its kind where it says nothing."""
    return next(iter(str(error).strip().splitlines()), "").rstrip(".") or type(error).__name__
