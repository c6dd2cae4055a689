"""The metrics of one evaluation, where they go, and the file that holds them (E §1.4).

The organiser's driver reads a result from a descriptor that it passes, named by PTB_RESULT_FD, and from no file. It is
taken when this module is imported: no program that is started later has it.
"""

import fcntl
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, MutableMapping, Optional

CHANNEL = "PTB_RESULT_FD"
_OF_CHANNEL = "/proc/self/fd/"  # a path that means the descriptor itself


def claim(environ: MutableMapping[str, str]) -> Optional[int]:
    """Take the driver's descriptor out of reach of other programs; None when there is none."""
    text = environ.pop(CHANNEL, "")
    if not text.isdigit():
        return None
    try:
        own = fcntl.fcntl(int(text), fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        return None
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, int(text), inheritable=int(text) < 3)
    os.close(nothing)
    return own


_DRIVER = claim(os.environ)


def write_metrics(path: Path, metrics: Dict[str, Any]) -> None:
    """Give the metrics to the driver, if there is one, and write them so that a reader sees the whole file or none."""
    text = json.dumps(metrics, indent=2) + "\n"
    if _DRIVER is not None:
        tell(_DRIVER, text)
    if str(path).startswith(_OF_CHANNEL):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=str(path.parent), prefix="." + path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def tell(descriptor: int, text: str) -> None:
    """Replace what a descriptor has by `text`."""
    data = text.encode("utf-8")
    os.ftruncate(descriptor, 0)
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], done)


def metrics_of(logs: List[Any], expected: int) -> Dict[str, Any]:
    """The metrics of exactly one successful log with one score over `expected` samples. Raises RuntimeError."""
    if len(logs) != 1 or logs[0].status != "success" or logs[0].results is None:
        error = logs[0].error.message if logs and logs[0].error else "no successful log"
        raise RuntimeError("evaluation did not succeed: {}".format(error))
    results = logs[0].results
    if results.completed_samples != expected or results.total_samples != expected:
        raise RuntimeError("{} of {} samples completed".format(results.completed_samples, expected))
    if len(results.scores) != 1:
        raise RuntimeError("expected one score, found {}".format(len(results.scores)))
    return {name: metric.value for name, metric in results.scores[0].metrics.items()}
