"""The metrics of one evaluation and the file that holds them (E §1.4)."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List


def write_metrics(path: Path, metrics: Dict[str, Any]) -> None:
    """Write the metrics object so that a reader sees the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=str(path.parent), prefix="." + path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(metrics, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


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
