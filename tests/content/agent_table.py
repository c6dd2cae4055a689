"""The table of H §2.2 with the environment of H §2.5: what each agent is to call, and how."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

CONFIG = "some-model[1m]"
PROMPT = "Train it.\n`touch spoiled` $(touch spoiled) \"quoted\" 'too' \\ %s é\n"


@dataclass(frozen=True)
class Row:
    """A line of the table. `{cwd}` in `argv` is the task folder."""

    cli: str
    argv: tuple[str, ...]
    keys: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    trace: str = ""
    login: str = ""
    again: tuple[str, ...] = ()
    effort: str = ""  # in Codex's settings

    @property
    def stdin(self) -> bool:
        return PROMPT not in self.argv


def value(key: str) -> str:
    """What the tests set a key to."""
    return f"value-of-{key}"


def claude(env: Mapping[str, str], *flags: str, key: str = "", again: bool = False) -> Row:
    front = ("--print", "--verbose", "--model", CONFIG, "--output-format", "stream-json")
    argv = (*front, *flags, "--dangerously-skip-permissions")
    keys, login = ((key,), "") if key else ((), "oauth_token")
    # As root Claude Code refuses to run without permissions unless it is told that it is in a sandbox.
    root = {"IS_SANDBOX": "1"} if os.getuid() == 0 else {}
    return Row("claude", argv, keys, {**root, **env}, "claude", login, (*argv, "--continue") if again else ())


def codex(*, effort: str = "", key: bool = True, again: bool = False, text: bool = False) -> Row:
    flags = () if text else ("--json", "-c", "model_reasoning_summary=detailed")
    usual = (*flags, "--skip-git-repo-check", "--yolo", "--model", CONFIG)
    resumed = ("--search", "exec", "resume", "--last", *usual, "-")
    return Row(
        "codex",
        ("--search", "exec", *usual),
        ("CODEX_API_KEY",) if key else (),
        trace="codex",
        login="" if key else ".codex/auth.json",
        again=resumed if again else (),
        effort=effort,
    )


def models(*names: str) -> dict[str, str]:
    return dict.fromkeys((f"ANTHROPIC_{name}" for name in names), CONFIG)


def both(key: str) -> dict[str, str]:
    return dict.fromkeys(("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), value(key))


BASH = {"BASH_MAX_TIMEOUT_MS": "36000000"}
HIGH = BASH | {"CLAUDE_CODE_EFFORT_LEVEL": "high"}
MAX = BASH | {"CLAUDE_CODE_EFFORT_LEVEL": "max"}
TOKEN = {"CLAUDE_CODE_OAUTH_TOKEN": "login-of-oauth_token"}
SUMMARIES = ("--thinking-display", "summarized")
DEFAULTS = ("DEFAULT_HAIKU_MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_OPUS_MODEL")
GLM5 = BASH | both("ZAI_API_KEY") | models("MODEL", "SMALL_FAST_MODEL") | {
    "ANTHROPIC_BASE_URL": "https://api.z.ai/api/anthropic",
    "API_TIMEOUT_MS": "3000000",
}  # fmt: skip
GLMX = BASH | both("GLMX_API_KEY") | models("MODEL", "SMALL_FAST_MODEL", *DEFAULTS) | {
    "ANTHROPIC_BASE_URL": "https://api.z.ai/api/anthropic",
    "API_TIMEOUT_MS": "3600000",
    "CLAUDE_STREAM_IDLE_TIMEOUT_MS": "3600000",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "128000",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "1000000",
    "CLAUDE_CODE_EAGER_FLUSH": "1",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "IS_SANDBOX": "1",
}  # fmt: skip
QWEN = BASH | both("DASHSCOPE_API_KEY") | models("MODEL", "SMALL_FAST_MODEL") | {
    "ANTHROPIC_BASE_URL": "https://dashscope-intl.aliyuncs.com/apps/anthropic",
}  # fmt: skip
KIMI = models("MODEL", *DEFAULTS, "DEFAULT_FABLE_MODEL") | {
    "CLAUDE_CODE_SUBAGENT_MODEL": CONFIG,
    "ANTHROPIC_API_KEY": value("KIMI_API_KEY"),
    "ANTHROPIC_BASE_URL": "https://api.moonshot.ai/anthropic",
    "API_TIMEOUT_MS": "12000000",
    "BUN_CONFIG_HTTP_IDLE_TIMEOUT": "2000",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "1000000",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "1048576",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_EFFORT_LEVEL": "max",
    "ENABLE_BACKGROUND_TASKS": "1",
    "FORCE_AUTO_BACKGROUND_TASKS": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "IS_SANDBOX": "1",
}

TABLE = {
    "claude": claude(HIGH, *SUMMARIES, key="ANTHROPIC_API_KEY"),
    "claude_non_api": claude(HIGH | TOKEN, *SUMMARIES),
    "claude_non_api_max": claude(MAX | TOKEN, *SUMMARIES),
    "claude_reprompt": claude(BASH, *SUMMARIES, key="ANTHROPIC_API_KEY", again=True),
    "glm5": claude(GLM5, key="ZAI_API_KEY"),
    "glmx": claude(GLMX, "--thinking", "adaptive", "--effort", "max", *SUMMARIES, key="GLMX_API_KEY"),
    "qwen3max": claude(QWEN, key="DASHSCOPE_API_KEY"),
    "kimi_claude": claude(KIMI, *SUMMARIES, key="KIMI_API_KEY"),
    "codex": codex(),
    "codex_xhigh": codex(effort="xhigh"),
    "codex_xhigh_reprompt": codex(effort="xhigh", again=True),
    "codexhigh": codex(effort="high", text=True),
    "codexlow": codex(effort="low", text=True),
    "codex_non_api": codex(key=False),
    "codex_non_api_high": codex(key=False, effort="high"),
    "codex_non_api_xhigh": codex(key=False, effort="xhigh"),
    "codex_non_api_max": codex(key=False, effort="max"),
    "codex_non_api_reprompt": codex(key=False, again=True),
    "codex_non_api_high_reprompt": codex(key=False, effort="high", again=True),
    "codex_non_api_xhigh_reprompt": codex(key=False, effort="xhigh", again=True),
    "cursor_cli": Row(
        "cursor-agent",
        ("--print", "--force", "--trust", "--output-format", "stream-json", "--workspace", "{cwd}", "--model", CONFIG,
         PROMPT),
        env={"NODE_USE_ENV_PROXY": "1"}, trace="cursor", login=".config/cursor/auth.json",
    ),
    "gemini": Row(
        "gemini", ("--yolo", "--model", CONFIG, "--output-format", "stream-json", "-p", PROMPT),
        ("GEMINI_API_KEY",), {"GEMINI_SANDBOX": "false", "GEMINI_CLI_TRUST_WORKSPACE": "true"}, "gemini",
    ),
    "grok_cli": Row(
        "grok",
        ("--oauth", "--always-approve", "--output-format", "streaming-json", "--cwd", "{cwd}", "-m", CONFIG,
         "-p", PROMPT),
        trace="grok", login=".grok/auth.json",
    ),
    "opencode": Row(
        "opencode", ("run", "--model", CONFIG, "--format", "json"),
        ("OPENCODE_API_KEY", "ZAI_API_KEY", "MODEL_API_KEY"), trace="opencode",
    ),
}  # fmt: skip
