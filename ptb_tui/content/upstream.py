"""A folder in the layout of the original's repository, shown in ours (H §1.3, §2.1; E §1.1, §2.2, §3.1, §3.2).

`shown` says what every file of our layout is: a file of theirs as it is, or words made from theirs. `view` writes that
into a folder of the user's cache, anew when anything has changed, so that the rest of the program needs to know one
layout only. Nothing that may hold a secret is copied; logins are read where they are. What a person has to correct is
named by its place in the original folder (`content.reading`).

    agents/A/                             → agents/A/, agent.toml made; logins stay
    src/utils/, containers/other_home_data/.codex/config.toml → what the original puts into an agent's home
    src/eval/tasks/T/                     → tasks/T/, task.toml made
    src/eval/templates/                   → tasks/templates/
    src/eval/general/NAME.txt             → tasks/prompts/NAME.md
    src/judges/J/judge.conf, its prompt   → judges/J/judge.toml, prompt.md
    src/judges/judge_tools/               → judges/tools/, but for the two checkers, which are ours
    containers/download_hf_cache/resources.json → containers/hub_manifest.json
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ptb_tui.content.dialect import (
    agent_toml,
    hub_manifest,
    judge_template,
    judge_toml,
    prompt_template,
    read_conf,
    task_toml,
)
from ptb_tui.content.frozen import kept, walk
from ptb_tui.content.lookup import shipped
from ptb_tui.content.reading import ORIGIN, Origin
from ptb_tui.core.errors import ConfigError, ContentError

VERSION = 2  # of what is made from the same files
OLD_S = 86_400.0  # a view that nobody made for so long may go
CHECKERS = ("contamination_check.py", "model_identity_check.py")
FINAL = "evaluate_final_eval.py"
_SHOWS = ("src/eval", "src/judges", "agents")
_UTILS = ("check_cuda.py", "check_cuda_writing.py", "system_monitor.sh", "timestamp_lines.py", "update_agent_cli.sh")
_CODEX_CONFIG = "containers/other_home_data/.codex/config.toml"
_RESOURCES = "containers/download_hf_cache/resources.json"


@dataclass(slots=True)
class Shown:
    """What stands where in our layout. `files`: a file of theirs; `made`: words of ours, with the file of theirs that
    they come from; `errors`: what cannot be made, in words."""

    files: dict[str, Path] = field(default_factory=dict)
    made: dict[str, tuple[str, Path]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(f"{path}: cannot be read as UTF-8 text: {error}") from error


def _folders(path: Path) -> Iterator[Path]:
    try:
        yield from sorted(entry for entry in path.iterdir() if entry.is_dir() and entry.name[0] not in "._")
    except OSError:
        return


def _below(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in walk(folder) if kept(path)}


def _known_clis() -> dict[str, str]:
    """Command → name in `containers/clis.toml`."""
    table = tomllib.loads(_text(shipped() / "containers" / "clis.toml"))
    return {entry["binary"]: name for name, entry in table["cli"].items()}


def _agents(root: Path, shown: Shown) -> None:
    clis = _known_clis()
    home = {name: root / "src/utils" / name for name in _UTILS} | {".codex/config.toml": root / _CODEX_CONFIG}
    for folder in _folders(root / "agents"):
        own = _below(folder)
        solve = own.get("solve.sh")
        for name, path in own.items():
            shown.files[f"agents/{folder.name}/{name}"] = path
        if "agent.toml" in own or solve is None:
            continue
        given = {target: f"home_files/{target.rpartition('/')[2]}" for target, path in home.items() if path.is_file()}
        for target, name in given.items():
            shown.files[f"agents/{folder.name}/{name}"] = home[target]
        target = f"agents/{folder.name}/agent.toml"
        try:
            there = frozenset(os.listdir(folder))
            shown.made[target] = (agent_toml(folder.name, _text(solve), there, given, clis), solve)
        except ContentError as error:
            shown.errors[target] = error.message


def _tasks(root: Path, shown: Shown) -> None:
    for folder in _folders(root / "src/eval/tasks"):
        own = _below(folder)
        if "evaluate.py" not in own:
            continue
        target = f"tasks/{folder.name}"
        shown.files.update({f"{target}/{name}": path for name, path in own.items()})
        if "task.toml" not in own:
            try:
                scripts = "\n".join(_text(own[name]) for name in ("evaluate.py", FINAL) if name in own)
                shown.made[f"{target}/task.toml"] = (task_toml(scripts), own["evaluate.py"])
            except ContentError as error:
                shown.errors[f"{target}/task.toml"] = error.message
        ours = shipped() / "tasks" / folder.name / "data.toml"
        if "test_data.json" not in own and "data.toml" not in own and ours.is_file():
            shown.files[f"{target}/data.toml"] = ours
    for name, path in _below(root / "src/eval/templates").items():
        shown.files[f"tasks/templates/{name}"] = path
    for path in sorted((root / "src/eval/general").glob("*.txt")):
        target = f"tasks/prompts/{path.stem}.md"
        try:
            shown.made[target] = (prompt_template(_text(path)), path)
        except ContentError as error:
            shown.errors[target] = error.message


def _judges(root: Path, shown: Shown) -> None:
    for folder in _folders(root / "src/judges"):
        conf, target = folder / "judge.conf", f"judges/{folder.name}"
        if not conf.is_file():
            continue
        shown.made[f"{target}/prompt.md"] = ("", conf)
        try:
            values = read_conf(_text(conf), str(conf))
            prompt = folder / values["JUDGE_PROMPT_FILE"]
            words = _text(prompt)
            shown.made[f"{target}/judge.toml"] = (judge_toml(values, words, str(conf)), conf)
            shown.made[f"{target}/prompt.md"] = (judge_template(words), prompt)
        except ContentError as error:
            shown.errors[f"{target}/judge.toml"] = error.message
    for name, path in _below(root / "src/judges/judge_tools").items():
        if name not in CHECKERS:
            shown.files[f"judges/tools/{name}"] = path


def _hub(root: Path, shown: Shown) -> None:
    source, target = root / _RESOURCES, "containers/hub_manifest.json"
    if source.is_file():
        try:
            shown.made[target] = (hub_manifest(_text(source), str(source)), source)
        except ContentError as error:
            shown.errors[target] = error.message


def shown(root: Path) -> Shown:
    """What a folder in the original's layout is in ours. Reads what has to be understood, copies nothing."""
    found = Shown()
    _agents(root, found)
    _tasks(root, found)
    _judges(root, found)
    _hub(root, found)
    return found


def _key(root: Path, found: Shown) -> str:
    digest = hashlib.sha256(f"{VERSION}\0{root}\0".encode())
    for name, path in sorted(found.files.items()):
        info = path.stat()
        digest.update(f"{name}\0{path}\0{info.st_size}\0{info.st_mtime_ns}\n".encode())
    for name, (words, path) in sorted(found.made.items()):
        digest.update(f"{name}\0{path}\0{words}\n".encode())
    for name, words in sorted(found.errors.items()):
        digest.update(f"{name}\0{words}\n".encode())
    return digest.hexdigest()[:16]


def _write(target: Path, found: Shown) -> None:
    for name, path in found.files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
    for name, (words, _) in found.made.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(words, "utf-8")
    for path in walk(target):
        path.chmod(0o644)
    sources = {name: str(path) for name, path in found.files.items()}
    sources |= {name: str(path) for name, (_, path) in found.made.items()}
    (target / ORIGIN).write_text(Origin(files=sources, errors=found.errors).model_dump_json(), "utf-8")


def _tidy(place: Path, keep: str) -> None:
    for old in place.glob("*"):
        if old.name != keep and time.time() - old.stat().st_mtime > OLD_S:
            shutil.rmtree(old, ignore_errors=True)


def view(root: Path) -> Path:
    """The folder in our layout that shows `root`. ConfigError when it is laid out otherwise or cannot be shown.

    A folder that is not there is shown as itself: it is left out, as any other that is not there.
    """
    if not root.is_dir():
        return root
    if not any((root / part).is_dir() for part in _SHOWS):
        raise ConfigError(
            f'{root}: layout = "upstream", but there is none of {", ".join(_SHOWS)}',
            hint='name the folder of the repository, or take layout = "own"',
        )
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "ptb-tui" / "upstream"
    place = base / hashlib.sha256(str(root).encode()).hexdigest()[:16]
    try:
        found = shown(root)
        target = place / _key(root, found)
        if (target / ORIGIN).is_file():
            return target
        place.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".", dir=place))
        _write(temporary, found)
        try:
            os.rename(temporary, target)
        except OSError:  # another process was faster
            shutil.rmtree(temporary, ignore_errors=True)
            if not target.is_dir():
                raise
        _tidy(place, target.name)
    except OSError as error:
        raise ConfigError(f"{root}: cannot be shown in {place}: {error}", hint="set XDG_CACHE_HOME") from error
    return target
