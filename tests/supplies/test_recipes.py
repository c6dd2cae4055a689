"""Image recipes: one template, one table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.content.lookup import shipped
from ptb_tui.core.errors import ContentError, NotFound
from ptb_tui.supplies.recipes import Recipes, digest, fill, folder_definition

TABLE = """
v = 1
[common]
base = "base:1"
node = "node:22"
uv = "1.0"
vllm = "2.0"
torch_backend = "cpu"
flash_attn = "3.0"
inspect_evals = "abc"
requirements = "req.txt"
[images.plain]
[images.rich]
words = "everything"
role = "judge"
npm = ["@a/b@1.0", "c@2"]
python = "newest"
inspect_evals = "newest"
inspect_patch = "HEAD"
soft_locks = true
"""
TEMPLATE = """#- a comment of the template
From: @base@
name @name@: @vllm_spec@, @flash_attn_spec@
@requirements@
#? npm
npm install @npm@
#.
#? inspect_evals_commit
git checkout @inspect_evals_commit@
#.
#? soft_locks
#? inspect_patch
locks and @inspect_patch@
#.
#.
"""
PLAIN = "From: base:1\nname plain: vllm==2.0, flash-attn==3.0\nx==1\ny==2\ngit checkout abc\n"
RICH = "From: base:1\nname rich: vllm, flash-attn\nx\ny\nnpm install @a/b@1.0 c@2\nlocks and HEAD\n"


def recipes(folder: Path, table: str = TABLE, template: str = TEMPLATE) -> Recipes:
    (folder / "images.toml").write_text(table)
    (folder / "image.def.in").write_text(template)
    (folder / "req.txt").write_text("# what is needed\nx==1\n\ny==2  # because\n")
    return Recipes.read(folder / "images.toml")


def test_a_definition_is_the_recipe_with_the_table_in_it(tmp_path: Path) -> None:
    found = recipes(tmp_path)
    assert found.render("plain") == PLAIN and found.render("rich") == RICH
    assert found.names("judge") == ("rich",) and digest(PLAIN) != digest(RICH)
    with pytest.raises(NotFound) as caught:
        found.render("plian")
    assert "'plain'" in caught.value.hint


def test_every_shipped_image_renders_with_its_own_versions() -> None:
    found = Recipes.read(shipped() / "containers" / "images.toml")
    assert len(found.names()) == 15
    assert {role: found.names(role) for role in ("agent", "judge", "evaluation")} == {
        "agent": ("standard",),
        "judge": ("gpt_5_5",),
        "evaluation": ("vllm_debug",),
    }
    for name in found.names():
        text, entry = found.render(name), found.definition(name)
        assert not re.search(r"^#[-?.]|@[a-z_]+@", text, re.MULTILINE), name
        assert ("inspect_ai_vllm_stdout" in text) == bool(entry.inspect_patch)
        assert ("vllm==0.11.0" in text) == (entry.python == "pinned")
        assert text.count("Bootstrap: docker") == 2 and "\n%post\n" in text
        assert ("soft_file_locks" in text) == entry.soft_locks
        lines = [line.split() for line in text.splitlines() if "npm install" in line]
        assert lines == [["npm", "install", "--global", "--no-fund", "--no-audit", *entry.npm]]
    evaluation = found.render("vllm_debug")
    assert "@openai/codex@0.98.0" in evaluation and "transformers==4.57.3" in evaluation
    assert "06001a83e6d7c709c2ede0570dce7f1031a0bad8" in evaluation
    assert "0.2.102" in found.render("muse_1_1") and "0.2.102" not in evaluation


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("x\n@nobody@\n", "line 2: no key 'nobody'"),
        ("#? nobody\n#.\n", "line 1: no key"),
        ("#.\n", "line 1"),
        ("#? npm\n", 'has no "#."'),
    ],
)
def test_a_mistake_in_the_recipe_names_its_line(tmp_path: Path, template: str, words: str) -> None:
    found = recipes(tmp_path, template=template)
    with pytest.raises(ContentError, match=re.escape(words)):
        found.render("rich")


@pytest.mark.parametrize(
    "change",
    [
        ('base = "base:1"', 'base = "x; rm -rf /"'),
        ('"c@2"', '"c; reboot"'),
        ('inspect_patch = "HEAD"', 'inspect_patch = "$(reboot)"'),
        ("[images.plain]", '[images."../x"]'),
        ("soft_locks", "soft_lokcs"),
        ("v = 1", "v = 2"),
        ("[common]", "[common"),
    ],
)
def test_a_mistake_in_the_table_is_refused(tmp_path: Path, change: tuple[str, str]) -> None:
    with pytest.raises(ContentError, match=r"images\.toml"):
        recipes(tmp_path, TABLE.replace(*change))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    recipes(tmp_path)
    (tmp_path / "req.txt").unlink()
    with pytest.raises(ContentError, match=r"req\.txt"):
        Recipes.read(tmp_path / "images.toml")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")))
def test_a_value_is_taken_as_it_is(value: str) -> None:
    assert fill("[@a@]\n", {"a": value, "npm": "never seen"}) == f"[{value}]\n"


@given(st.text(max_size=200))
def test_any_recipe_renders_or_is_refused(template: str) -> None:
    try:
        assert fill(template, {"a": "1", "b": ""}).endswith("\n")
    except ContentError as error:
        assert "image.def.in" in error.message


def test_a_folder_has_a_definition_too(tmp_path: Path) -> None:
    assert folder_definition(tmp_path).endswith(f"\nBootstrap: localimage\nFrom: {tmp_path}\n")
