"""The original's prompts, judges, agents and lists, in our words (E §2.2, §3.2, §3.3, H §2). Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping

from ptb_tui.core.errors import ContentError

PROMPT_VALUES = (
    *("model", "benchmark", "num_hours", "gpu_info", "setup_other", "decontamination_tool", "eval_api_note"),
    "datetime",
)
JUDGE_VALUES = (
    *("model", "benchmark", "allowed_data_examples", "disallowed_data_examples", "agent_harness"),
    *("api_judge_exception", "agent_identity", "grader_note"),
)
_MARK = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_KEY = re.compile(r"[A-Z][A-Z0-9_]*")
_REQUIRED = ("JUDGE_LABEL", "JUDGE_OUTPUT_ID", "JUDGE_PROMPT_FILE")
_OPTIONAL = {"JUDGE_MODEL": "model", "JUDGE_REASONING_EFFORT": "effort", "JUDGE_CODEX_VERSION": "cli_version"}
_ID = re.compile(r"[a-z0-9_]+")
_KNOWN: Mapping[str, tuple[int, tuple[str, ...], str, bool]] = {  # id → order, flags, effect, required (E §3.1, §3.4)
    "gpt5_4": (1, ("contamination", "disallowed_model"), "baseline", True),
    "api": (2, ("disallowed_api_usage",), "baseline", True),
    "ptb_lookup": (3, ("disallowed_ptb_lookup",), "quarantine", True),
    "general": (4, ("general_anomaly",), "none", False),
    "derived_contamination": (5, ("derived_contamination",), "none", False),
}
_OWN_ORDER = 50
_CHATGPT = "forced_login_method"  # what a script tells Codex when it works with a login
_FAMILIES = ("claude", "codex", "cursor", "gemini", "opencode", "grok")
_LOGINS = {  # what lies beside solve.sh → `[credential]`, in the words of ours
    "auth.json": ("rotating", "broker", "codex", ".codex/auth.json", '["codex", "login", "--device-auth"]'),
    "oauth_token": ("static_token", "", "claude", "oauth_token", '["claude", "setup-token"]'),
    "cursor_auth.json": ("rotating", "exclusive", "cursor", ".config/cursor/auth.json", '["cursor-agent", "login"]'),
    "grok_auth.json": ("rotating", "exclusive", "grok", ".grok/auth.json", '["grok", "login", "--device-auth"]'),
}
_PLACES = """
## Where things are here

The text above was written for a working directory that is a copy of the agent's task folder. Here the evidence lies in other places, and nothing of it can be changed.

{evidence}

A file that the text above places beside or in the working directory is the one of the same name there: `../solve_parsed.txt` is `/evidence/solve_parsed.txt`, likewise `../test_data.json`, `../final_model_config.json` and `../reference_configs/`; the two checkers are in `/evidence/tools/`; what has no `../` before it is below `/evidence/task/`.

## What to write here

What the text above says about the content of `judgement.json` holds. Its form and place are these:

{verdict}
"""  # noqa: E501 - a prompt has one line for a paragraph


def prompt_template(words: str) -> str:
    """A prompt of theirs as a template of ours: back-ticks are not escaped, and what is in braces without being a
    placeholder of theirs stays as it is, unless it looks like a misspelt one, which then is an error as in ours."""

    def mark(found: re.Match[str]) -> str:
        name = found[1]
        misspelt = difflib.get_close_matches(name, PROMPT_VALUES, n=1, cutoff=0.75)
        return found[0] if name in PROMPT_VALUES or misspelt else f"{{{found[0]}}}"

    return _MARK.sub(mark, words.replace("\\`", "`")).rstrip("\n") + "\n"


def read_conf(text: str, source: str) -> dict[str, str]:
    """`judge.conf`: `KEY="value"` lines and comments. Nothing is evaluated. ContentError names file and line."""
    values: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals or not _KEY.fullmatch(key.strip()):
            raise ContentError(f'{source}: line {number}: not KEY="value"')
        value = value.strip()
        quoted = re.fullmatch(r'"([^"]*)"\s*(?:#.*)?', value)
        values[key.strip()] = quoted[1] if quoted else value.strip('"').strip()
        if "$" in values[key.strip()] or "`" in values[key.strip()]:
            raise ContentError(f"{source}: line {number}: {key.strip()}: nothing is evaluated here; write the value")
    for key in _REQUIRED:
        if not values.get(key):
            raise ContentError(f"{source}: {key} is missing")
    if not _ID.fullmatch(values["JUDGE_OUTPUT_ID"]):
        raise ContentError(f"{source}: JUDGE_OUTPUT_ID {values['JUDGE_OUTPUT_ID']!r}: small letters, digits and `_`")
    if "/" in values["JUDGE_PROMPT_FILE"]:
        raise ContentError(f"{source}: JUDGE_PROMPT_FILE is a file of this folder")
    return values


def flags_of(output_id: str, prompt: str) -> tuple[str, ...]:
    """The questions of a judge: known ones by its id, else every X for which its prompt asks for `justification_X`."""
    if output_id in _KNOWN:
        return _KNOWN[output_id][1]
    return tuple(dict.fromkeys(re.findall(r"\bjustification_([a-z][a-z0-9_]*)", prompt)))


def judge_toml(values: Mapping[str, str], prompt: str, source: str) -> str:
    """`judge.toml` for a judge of theirs. ContentError when nothing says what it is asked."""
    output_id = values["JUDGE_OUTPUT_ID"]
    flags = flags_of(output_id, prompt)
    if not flags:
        raise ContentError(
            f"{source}: its prompt {values['JUDGE_PROMPT_FILE']} names no field of a verdict",
            hint="for a field X a verdict has `justification_X`; name that in the prompt",
        )
    order, _, effect, required = _KNOWN.get(output_id, (_OWN_ORDER, (), "none", False))
    lines = ["v = 1", f"label = {json.dumps(values['JUDGE_LABEL'])}", f'output_id = "{output_id}"', f"order = {order}"]
    lines += [f"{ours} = {json.dumps(values[theirs])}" for theirs, ours in _OPTIONAL.items() if theirs in values]
    lines += [f'effect = "{effect}"', f"required = {str(required).lower()}", f"flags = {json.dumps(flags)}"]
    return "\n".join(lines) + '\nneeds = ["trace"]\n'


def judge_template(words: str) -> str:
    """A judge's prompt of theirs as a template of ours, with where the evidence is and what to write put behind it."""

    def mark(found: re.Match[str]) -> str:
        return found[0] if found[1] in JUDGE_VALUES else f"{{ {found[1]} }}"

    return _MARK.sub(mark, words.replace("\\`", "`")).rstrip("\n") + "\n" + _PLACES


def trace_of(agent: str) -> str:
    """How an agent's output is read: by the one family that its name holds, else as plain text (H §3.1)."""
    found = [family for family in _FAMILIES if family in agent]
    return found[0] if len(found) == 1 else "plain"


def cli_of(solve: str, clis: Mapping[str, str]) -> str:
    """The CLI that a script starts, a name of `clis.toml`; empty when it starts none that is known."""
    code = "\n".join(line for line in solve.splitlines() if not line.lstrip().startswith("#"))
    found = {name for binary, name in clis.items() if re.search(rf"(?m)(?:^|[\s|;&(]){re.escape(binary)}\s+-?\w", code)}
    named = {name for name in found if re.search(rf"update_agent_cli\.sh\W+{name}\b", code)}
    chosen = named or found
    return chosen.pop() if len(chosen) == 1 else ""


def agent_toml(name: str, solve: str, beside: frozenset[str], home: Mapping[str, str], clis: Mapping[str, str]) -> str:
    """`agent.toml` for an agent of theirs. `beside`: names of the files in its folder; `home`: file of its home → file
    of its folder. Pure."""
    lines = ["v = 1", f'label = "{name}"', f'trace = "{trace_of(name)}"']
    if cli := cli_of(solve, clis):
        lines.append(f'cli = "{cli}"')
    if home:
        lines += ["", "[home]", *(f'"{target}" = "{source}"' for target, source in sorted(home.items()))]
    for found, (kind, renewal, login, file, command) in _LOGINS.items():
        if (
            found in beside
            or re.search(rf"(?<!\w){re.escape(file)}\b", solve)
            or (found == "auth.json" and _CHATGPT in solve)
        ):
            lines += ["", "[credential]", f'kind = "{kind}"', f'name = "{login}"', f'file = "{file}"']
            lines += [f'found = "{found}"', f"login = {command}"]
            lines += [f'renewal = "{renewal}"'] if renewal else []
            lines += ['family = "codex"'] if login == "codex" else []
            break
    return "\n".join(lines) + "\n"


def task_toml(scripts: str) -> str:
    """`task.toml` for a task of theirs, from the text of its scripts, which load their items themselves. Pure."""
    inspect = "inspect_ai" in scripts or "inspect_evals" in scripts
    lines = ["v = 1", f"inspect = {str(inspect).lower()}", "needs = []"]
    if "--max-new-tokens" in scripts:
        lines += ["", "[final]", 'tokens_flag = "--max-new-tokens"']
    return "\n".join(lines) + "\n"


def hub_manifest(text: str, source: str) -> str:
    """Our list of what of the hub is cached, from theirs (H §5.4). ContentError when it is not understood. Pure."""
    try:
        table = json.loads(text)
        models = [{"model": model} if isinstance(model, str) else dict(model) for model in table["models"]]
        datasets = [{"dataset": row} if isinstance(row, str) else dict(row) for row in table["datasets"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ContentError(f"{source}: needs `models` and `datasets`: {error}") from error
    return json.dumps({"v": 1, "models": models, "datasets": datasets}, indent=1) + "\n"
