"""How an evaluation reaches the model: vLLM where it works, else transformers on the CPU."""

import argparse
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict

from ptb_items import InputMissing


def vllm_works() -> bool:
    """Whether vLLM can serve here. Importing it also succeeds on machines where it then cannot start.

    RuntimeError where it must: with a GPU, the slow and greedy way of the CPU would measure something else.
    """
    works = shutil.which("vllm") is not None and _answers()
    if not works and os.environ.get("CUDA_VISIBLE_DEVICES", "").strip() not in ("", "-1"):
        raise RuntimeError("vLLM does not work here, and CUDA_VISIBLE_DEVICES names a GPU")
    return works


def _answers() -> bool:
    try:
        done = subprocess.run(
            ["vllm", "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=600,  # of a cold start from a network disk
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def check_model(path: str) -> None:
    """Refuse a model path that is neither a model directory nor the id of one on the hub. Raises InputMissing."""
    if os.path.isdir(path):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        if not os.path.isfile(os.path.join(path, "config.json")):
            raise InputMissing("{} holds no config.json".format(path))
    elif os.sep in path[:1] or path.startswith(".") or "/" not in path:
        raise InputMissing("no model directory {}".format(path))


def model_for(args: argparse.Namespace, template: Path, tool_parser: str = "") -> Dict[str, Any]:
    """The model arguments of inspect's `eval`; `tool_parser` names vLLM's parser of tool calls."""
    if vllm_works():
        margs: Dict[str, Any] = {
            "gpu_memory_utilization": args.gpu_memory_utilization,
            "chat_template": str(template),
            "host": "127.0.0.1",
        }
        if tool_parser:
            margs.update(enable_auto_tool_choice=True, tool_call_parser=tool_parser)
        return {"model": "vllm/" + args.model_path, "model_args": margs}
    # A fixed number of threads and full precision: the same model gives the same answers every time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    margs = {
        "model_path": args.model_path,
        "device": "cpu",
        "dtype": "float32",
        "do_sample": False,
        "chat_template": template.read_text(encoding="utf-8"),
    }
    return {"model": "hf/local", "model_args": margs}
