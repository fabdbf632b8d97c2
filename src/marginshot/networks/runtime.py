"""ONNX Runtime: a graph made ready to run on this machine's processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marginshot._lib.reading import reading
from marginshot.networks.own_files import EXPORT_AGAIN, NETWORK


def open_graph(graph: bytes, n_threads: int) -> Any:
    """A graph of ours, run by ``n_threads`` threads; several callers may run it at the same time."""
    import onnxruntime

    return onnxruntime.InferenceSession(graph, _options(n_threads), providers=["CPUExecutionProvider"])


def open_graph_file(path: Path, n_threads: int) -> Any:
    """The graph in a user's file; one that the runtime cannot read is an error of one sentence."""
    import onnxruntime

    with reading(path, NETWORK, EXPORT_AGAIN):
        session = onnxruntime.InferenceSession(str(path), _options(n_threads), providers=["CPUExecutionProvider"])
        if not session.get_outputs():
            raise ValueError("it has no output")
        return session


def _options(n_threads: int) -> Any:
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # official builds for Windows have them
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = n_threads, 1
    options.log_severity_level = 4  # errors are raised, too
    # Threads that wait for work by spinning take the processor from those that decode pictures.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
