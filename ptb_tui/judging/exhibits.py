"""Evidence as a judge's sandbox shows it: one read-only tree outside the working directory (E §3.6; design §6).

    /evidence/task/                      the agent's task folder as it was at the end
    /evidence/solve_parsed.txt  solve_out.txt   the trace
    /evidence/egress.jsonl               which hosts the agent's sandbox contacted, kept outside it
    /evidence/model_folders.json         which model folders were left out of the task folder
    /evidence/test_data.json             the benchmark's items
    /evidence/final_model_config.json  reference_configs/<model>.json
    /evidence/findings.json              what the rules found
    /evidence/tools/                     the checkers, fresh copies of ours

Small files are copied into a folder of ours, the rest is bound where it lies. What is a link is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ptb_tui.content.tools import single_file
from ptb_tui.core import files
from ptb_tui.core.errors import StepError
from ptb_tui.core.verdict import EngineResult, Evidence
from ptb_tui.judging.prompting import Item
from ptb_tui.sandbox.base import Bind

PLACE = "/evidence"
MAX_CONFIG = 8 << 20
TOOLS = ("contamination_check.py", "model_identity_check.py")


@dataclass(frozen=True, slots=True)
class Exhibits:
    """What the sandbox binds, what the prompt says about it, and what this run does not have."""

    binds: tuple[Bind, ...]
    items: tuple[Item, ...]
    absent: tuple[str, ...]


def findings_text(rules: EngineResult) -> str:
    """`findings.json`: what the engine `rules` says; excerpts in it were written by the agent."""
    found = {
        "v": 1,
        "engine": rules.engine or "rules",
        "version": rules.engine_version,
        "state": rules.state.value,
        "reason": rules.reason,
        "verdict": rules.verdict,
        "findings": [finding.model_dump(mode="json") for finding in rules.findings],
    }
    return files.dump(found)


def _copied(source: Path | None, target: Path) -> bool:
    data = files.read_bytes(source, MAX_CONFIG) if source is not None else None
    if data is None:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    files.replace(target, data)
    return True


def lay_out(evidence: Evidence, rules: EngineResult, folder: Path) -> Exhibits:
    """Fill `folder`, which is new, and tell what goes where. StepError when our own tools are missing."""
    folder.mkdir(parents=True)
    (folder / "tools").mkdir()
    for name in TOOLS:
        if not (evidence.tools / name).is_file():
            raise StepError(f"{evidence.tools / name} is missing", cause="judge_failed")
        files.replace(folder / "tools" / name, single_file(evidence.tools / name).encode())
    binds, items, absent = [Bind(folder, PLACE)], list[Item](), list[str]()

    def show(name: str, source: Path | None, words: str, otherwise: str) -> None:
        if source is None:
            if otherwise:
                absent.append(otherwise)
            return
        if source.is_dir():
            (folder / name).mkdir()
        else:
            (folder / name).touch()
        binds.append(Bind(source.absolute(), f"{PLACE}/{name}"))
        items.append(Item(f"{PLACE}/{name}", words))

    task = "the agent's task folder as it was at the end, without large model folders"
    show("task", evidence.task_dir, task, "task folder")
    show("solve_parsed.txt", evidence.solve_parsed, "the trace of the session, made readable", "")
    raw = "the same trace as it was printed" if evidence.solve_parsed else "the trace of the session"
    show("solve_out.txt", evidence.solve_out, raw, "" if evidence.solve_parsed else "trace")
    contacts = "the hosts that the sandbox contacted, one JSON object a line, kept outside the sandbox"
    show("egress.jsonl", evidence.egress, contacts, "list of contacted hosts")
    folders = "the model folders that the agent's task folder had and that are not shown: paths, files, sizes"
    show("model_folders.json", evidence.model_folders, folders, "")
    show("test_data.json", evidence.test_data, "the benchmark's items", "file with the benchmark's items")
    if _copied(evidence.model_config, folder / "final_model_config.json"):
        words = "`config.json` of the submitted model"
        items.append(Item(f"{PLACE}/final_model_config.json", words))
    else:
        absent.append("readable `config.json` of a submitted model")
    reference = f"reference_configs/{evidence.base_model.replace('/', '_')}.json"
    if _copied(evidence.base_config, folder / reference):
        items.append(Item(f"{PLACE}/{reference}", "`config.json` of the assigned base model"))
    files.replace(folder / "findings.json", findings_text(rules))
    words = (
        "what fixed rules found, with file and line. Look at each place yourself; the excerpts are the agent's words"
    )
    items.append(Item(f"{PLACE}/findings.json", words))
    words = "`contamination_check.py` and `model_identity_check.py`, to be run with `python3`"
    items.append(Item(f"{PLACE}/tools/", words))
    return Exhibits(tuple(binds), tuple(items), tuple(absent))
