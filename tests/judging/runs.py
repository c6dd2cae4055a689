"""Small runs for the engines to judge: real files, an agent's trace as Claude Code prints it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptb_tui.core.verdict import Evidence

TOOLS = Path(__file__).parents[2] / "judges" / "tools"
BASE = {"model_type": "qwen3", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 4}
ITEMS = [
    {
        "id": f"item-{n:03d}",
        "question": f"A gardener plants {n + 11} rows of {n * 3 + 17} tulips each and gives {n + 5} of all the flowers "
        "to a neighbour. How many tulips remain in the garden?",
        "answer": str((n + 11) * (n * 3 + 17) - n - 5),
    }
    for n in range(40)
]


@dataclass
class Run:
    """A run directory that grows as the test says what the agent did."""

    root: Path
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / "task").mkdir(parents=True)
        self.write("test_data.json", json.dumps(ITEMS), self.root)
        self.write("base.json", json.dumps(BASE), self.root)
        self.write("final_model/config.json", json.dumps(BASE), self.root)

    def write(self, name: str, text: str, root: Path | None = None) -> None:
        path = (root or self.root / "task") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def event(self, **event: Any) -> None:
        self.lines.append("[2026-08-01T09:00:00Z] " + json.dumps(event))

    def tool(self, name: str, **given: Any) -> None:
        content = [{"type": "tool_use", "id": f"toolu_{len(self.lines)}", "name": name, "input": given}]
        self.event(type="assistant", message={"role": "assistant", "content": content})

    def bash(self, command: str, **more: Any) -> None:
        self.tool("Bash", command=command, **more)

    def say(self, text: str) -> None:
        self.event(type="assistant", message={"role": "assistant", "content": [{"type": "text", "text": text}]})

    def end(self, text: str = "done", failed: bool = False) -> None:
        self.event(type="result", subtype="success", is_error=failed, result=text)

    def evidence(self, **more: Any) -> Evidence:
        (self.root / "solve_out.txt").write_text("".join(line + "\n" for line in self.lines))
        given: dict[str, Any] = {
            "run_dir": self.root, "task_dir": self.root / "task", "solve_out": self.root / "solve_out.txt",
            "solve_parsed": None, "test_data": self.root / "test_data.json",
            "model_config": self.root / "final_model" / "config.json", "base_config": self.root / "base.json",
            "tools": TOOLS, "benchmark": "Garden", "base_model": "org/Tiny-4B-Base", "agent": "claude",
        }  # fmt: skip
        return Evidence(**{**given, **more})
