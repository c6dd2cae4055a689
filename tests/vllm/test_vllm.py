"""One task through a real vLLM, its build for CPUs, started by inspect exactly as on a machine with a GPU."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.run import processes
from tests.tasks.conftest import MODEL
from tests.tasks.items import lay_out
from tests.tasks.loading import load
from tests.tasks.test_every_task import ITEMS
from tests.vllm import environment

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not environment.ready(), reason="no vLLM for CPUs here: make test-vllm"),
]
seeds = load("ptb_seeds")
_LIMIT_S = 900  # a minute on two idle cores


def env(home: Path) -> dict[str, str]:
    """What makes a build for CPUs start on two cores and little memory; the rest is an attempt's environment."""
    return {
        "PATH": f"{environment.folder() / 'bin'}:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "PYTHONNOUSERSITE": "1",
        "PTB_BASE_MODEL": "local/demo-base",
        "VLLM_API_KEY": "inspectai",
        "VLLM_CACHE_ROOT": str(home / "vllm"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DEFAULT_SERVER_ARGS": json.dumps({"enforce_eager": True}),
        "XDG_CACHE_HOME": str(home / "cache"),
    }


def test_gsm8k_through_vllm(tmp_path: Path) -> None:
    """Right answers counted, a seed for every request, the organiser's template, and no process left."""
    script = lay_out(tmp_path, "gsm8k", True, ITEMS["gsm8k"])
    (script.parent / "final_model").symlink_to(MODEL)
    python = str(environment.folder() / "bin" / "python")
    command = [python, script.name, "--seed", "72332", "--max-tokens", "40", "--json-output-file", "metrics.json"]
    try:
        done = subprocess.run(
            command, cwd=script.parent, env=env(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_LIMIT_S,
        )  # fmt: skip
    finally:
        left = list(processes.marked(f"HOME={tmp_path}".encode()))
        for pid in left:
            processes.send(pid, signal.SIGKILL)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    metrics = json.loads((script.parent / "metrics.json").read_text())
    assert metrics == {"accuracy": 0.5, "stderr": pytest.approx(0.5)}

    (path,) = (script.parent / "logs").glob("*.json")
    log: dict[str, Any] = json.loads(path.read_text())
    assert log["eval"]["model"] == "vllm/final_model"
    assert log["eval"]["model_args"]["chat_template"].endswith("templates/qwen3.jinja")
    assert log["eval"]["model_args"]["gpu_memory_utilization"] == 0.3
    for sample in log["samples"]:
        (asked,) = [event for event in sample["events"] if event["event"] == "model"]
        assert asked["config"]["seed"] == seeds.sample_seed(72332, sample["id"])
        assert sample["output"]["completion"] == "ANSWER: 7"
        assert sample["output"]["choices"][0]["stop_reason"] == "stop"
    assert left == [], "servers that were left running"
