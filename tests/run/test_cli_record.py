"""`cli_version.txt` of a run."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.text import sanitize
from ptb_tui.run.cli_record import version_block, version_file

NOW = "2026-08-04T12:34:56.789Z"
STORE = {
    "cli": "codex", "binary": "codex", "source": "@openai/codex", "from": "store", "path": "/opt/ptb/cli/bin/codex",
    "said": "codex-cli 1.0.0", "digest": "ab" * 32, "recorded_at": "2026-08-04T11:00:00.000Z",
}  # fmt: skip


def test_a_cli_from_the_store_is_told_by_the_host_whatever_the_agent_left() -> None:
    for left in (None, b"binary: codex\nversion: 9.9\n"):
        assert version_file(STORE, left, NOW).decode() == (
            "binary: codex\npackage: @openai/codex\npath: /opt/ptb/cli/bin/codex\nversion: codex-cli 1.0.0\n"
            f"update: skipped\nrecorded_at: 2026-08-04T11:00:00+00:00\nstore: {'ab' * 32}\n"
        )


def test_what_solve_sh_wrote_stands_otherwise_and_says_whose_it_is() -> None:
    assert version_file({"from": "at-start"}, b"binary: codex\nupdate: success\n", NOW) == (
        b"binary: codex\nupdate: success\nrecorded_by: agent\n"
    )
    odd = b"recorded_by: harness\nversion: \x1b]0;x\x07 1\xff"
    written = "recorded_by: harness\nversion:  1\ufffd\nrecorded_by: agent\n"
    assert version_file({"from": "unpinned"}, odd, NOW) == written.encode(), "the last line is ours"
    assert version_file({}, b"", NOW) == b"recorded_by: agent\n"


def test_a_run_whose_agent_left_nothing_has_its_six_lines_too() -> None:
    lines = version_file({"cli": "", "from": "the agent"}, None, NOW).decode().splitlines()
    assert lines == [
        "binary: <none>",
        "package: <none>",
        "path: <not found>",
        "version: <not recorded>",
        "update: skipped",
        "recorded_at: 2026-08-04T12:34:56+00:00",
    ]


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.sampled_from([*STORE, "x"]), json_like), st.none() | st.binary())
def test_any_facts_and_any_file_make_text_that_may_be_shown(facts: dict[str, Any], left: bytes | None) -> None:
    content = version_file(facts, left, NOW).decode()
    assert content == sanitize(content)
    assert version_block(content.encode()).count("--- AGENT CLI VERSION ---") >= 2
