"""Print a session as Claude Code's stream-json does, while doing what the printed lines say.

Nothing here talks to a model: the words are fixed, the commands are really run and the results are what they printed.
Usage and cost are therefore zero.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any, Dict, List

OUTPUT_LIMIT = 6000


class Session:
    """One session; each method prints one event."""

    def __init__(self, model: str, session_id: str) -> None:
        self._id = session_id
        self._calls = 0
        self._turns = 0
        self._start = time.monotonic()
        self._model = model
        self._print({"type": "system", "subtype": "init", "cwd": os.getcwd(), "tools": ["Bash"], "model": model})

    def _print(self, event: Dict[str, Any]) -> None:
        event["session_id"] = self._id
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    def _assistant(self, content: List[Dict[str, Any]]) -> None:
        self._turns += 1
        message = {
            "id": "msg_{:04d}".format(self._turns),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        self._print({"type": "assistant", "message": message})

    def say(self, text: str) -> None:
        """A text of the assistant."""
        self._assistant([{"type": "text", "text": text}])

    def bash(self, command: str, description: str) -> "subprocess.CompletedProcess[str]":
        """Announce `command`, run it in the working directory, print what it wrote (both streams, shortened)."""
        self._calls += 1
        call = "toolu_{:04d}".format(self._calls)
        what = {"command": command, "description": description}
        self._assistant([{"type": "tool_use", "id": call, "name": "Bash", "input": what}])
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        shown = done.stdout
        if len(shown) > OUTPUT_LIMIT:
            shown = shown[: OUTPUT_LIMIT // 2] + "\n[... shortened ...]\n" + shown[-OUTPUT_LIMIT // 2 :]
        if done.returncode:
            shown = "Exit code {}\n{}".format(done.returncode, shown)
        result = {"type": "tool_result", "tool_use_id": call, "content": shown, "is_error": done.returncode != 0}
        self._print({"type": "user", "message": {"role": "user", "content": [result]}})
        return done

    def end(self, text: str, failed: bool = False) -> None:
        """The closing result event."""
        elapsed = int((time.monotonic() - self._start) * 1000)
        self._print(
            {
                "type": "result",
                "subtype": "error_during_execution" if failed else "success",
                "is_error": failed,
                "duration_ms": elapsed,
                "duration_api_ms": 0,
                "num_turns": self._turns,
                "result": text,
                "total_cost_usd": 0,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            }
        )


def steps_of(config: str) -> int:
    """The number of optimizer steps in an agent config `stepsN`. Raises ValueError."""
    number = config[len("steps") :]
    if not config.startswith("steps") or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise ValueError("the config of this agent is stepsN, for example steps300, not {!r}".format(config))
    return int(number)


def train(session: Session, steps: int) -> bool:
    """Train in the background, looking at the log now and then; True if a model was saved."""
    session.bash(
        "rm -f train.exit; "
        '(python3 "$HOME/agent/train.py" --data train_data.jsonl --steps {}; echo $? > train.exit) '
        "> train.log 2>&1 &".format(steps),
        "Start the training in the background",
    )
    while not os.path.exists("train.exit"):
        # The command ends with the training or after ten seconds: what is saved does not depend on it.
        session.bash(
            "for i in $(seq 20); do [ -e train.exit ] && break; sleep 0.5; done; tail -n 2 train.log",
            "Wait and look at the training log",
        )
    return os.path.isfile("final_model/config.json")
