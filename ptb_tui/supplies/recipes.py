"""Container images as data: one recipe, one table of what differs (H §5.2, §5.3). Pure but for reading the three files.

The text of a definition holds everything, requirements included, so its digest tells whether an image is still what
the recipe would build.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ptb_tui.core.errors import ContentError, NotFound
from ptb_tui.core.explain import explain

Role = Literal["agent", "judge", "evaluation"]
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_WORD = r"^[A-Za-z0-9@/._-]*$"  # goes into a shell script as it is


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Common(_Table):
    """`[common]`: what all images share."""

    base: str = Field(pattern=r"^[A-Za-z0-9@/._:-]+$")
    node: str = Field(pattern=r"^[A-Za-z0-9@/._:-]+$")
    uv: str = Field(pattern=_WORD)
    vllm: str = Field(pattern=_WORD)
    torch_backend: str = Field(pattern=_WORD)
    flash_attn: str = Field(pattern=_WORD)
    inspect_evals: str = Field(pattern=_WORD)
    requirements: str = Field(pattern=r"^[A-Za-z0-9._-]+$")  # a file beside the table


class Definition(_Table):
    """`[images.NAME]`: what is particular to one image."""

    words: str = ""
    role: Role | None = None
    npm: tuple[str, ...] = ()
    python: Literal["pinned", "newest"] = "pinned"
    inspect_evals: Literal["pinned", "newest"] = "pinned"
    inspect_patch: str = Field(default="", pattern=_WORD)
    cursor: str = Field(default="", pattern=_WORD)
    grok: str = Field(default="", pattern=_WORD)
    soft_locks: bool = False


class ImageTable(_Table):
    """`containers/images.toml`."""

    v: Literal[1] = 1
    common: Common
    images: dict[str, Definition]


class Recipes:
    """The table with its recipe and requirements. Read once from the folder `containers` of the content."""

    def __init__(self, table: ImageTable, template: str, requirements: str) -> None:
        self.table, self._template = table, template
        lines = (line.split("#", 1)[0].strip() for line in requirements.splitlines())
        self._requirements = tuple(line for line in lines if line)

    @staticmethod
    def read(table_file: Path) -> Recipes:
        """From `images.toml`; the recipe `image.def.in` and the requirements lie beside it. ContentError names file
        and place."""
        try:
            table = ImageTable.model_validate(tomllib.loads(table_file.read_text("utf-8")))
            template = table_file.with_name("image.def.in").read_text("utf-8")
            requirements = table_file.with_name(table.common.requirements).read_text("utf-8")
        except OSError as error:
            raise ContentError(f"{error.filename}: cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ContentError(f"{table_file}: not TOML: {error}") from error
        except ValidationError as error:
            sections: dict[str, type[BaseModel]] = {"common": Common, "images": Definition}
            raise ContentError(explain(error, str(table_file), ImageTable, sections)) from error
        for name, entry in table.images.items():
            for word in (name, *entry.npm):
                if not re.fullmatch(_WORD, word) or not NAME.fullmatch(name):
                    raise ContentError(f"{table_file}: images.{name}: {word!r} holds what a name must not")
        return Recipes(table, template, requirements)

    def names(self, role: Role | None = None) -> tuple[str, ...]:
        """The images of the table, or those of one role."""
        return tuple(name for name, entry in self.table.images.items() if role is None or entry.role == role)

    def definition(self, name: str) -> Definition:
        """One image's table. NotFound names the nearest known one."""
        if name in self.table.images:
            return self.table.images[name]
        near = difflib.get_close_matches(name, self.names(), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(self.names())}"
        raise NotFound(f"no image {name!r} in containers/images.toml", hint=f"{hint}; --from DIR takes a folder")

    def render(self, name: str) -> str:
        """The Apptainer definition of one image. NotFound for an unknown name, ContentError for a broken recipe."""
        entry, common = self.definition(name), self.table.common
        newest = entry.python == "newest"
        words = [re.split(r"[=<>~! ]", line)[0] for line in self._requirements] if newest else self._requirements
        return fill(
            self._template,
            {
                "name": name,
                "base": common.base,
                "node": common.node,
                "uv": common.uv,
                "torch_backend": common.torch_backend,
                "vllm_spec": "vllm" if newest else f"vllm=={common.vllm}",
                "flash_attn_spec": "flash-attn" if newest else f"flash-attn=={common.flash_attn}",
                "requirements": "\n".join(words),
                "npm": " ".join(entry.npm),
                "inspect_evals_commit": "" if entry.inspect_evals == "newest" else common.inspect_evals,
                "inspect_patch": entry.inspect_patch,
                "cursor": entry.cursor,
                "grok": entry.grok,
                "soft_locks": "yes" if entry.soft_locks else "",
            },
        )


def digest(text: str) -> str:
    """What identifies a definition."""
    return hashlib.sha256(text.encode()).hexdigest()


def folder_definition(folder: Path) -> str:
    """The definition of an image made from a root folder of this machine, as a person would write it."""
    return f"# Packed as it is, without what is in dev, proc and sys.\nBootstrap: localimage\nFrom: {folder}\n"


def fill(template: str, values: dict[str, str]) -> str:
    """A recipe with its values: `@KEY@` is replaced, "#? KEY" to "#." is kept where KEY has a value, "#-" is left out.

    ContentError with the line for a key that is not known and for a "#." without its beginning. Values are taken as
    they are: an "@" in a value means nothing.
    """
    lines: list[str] = []
    kept: list[bool] = []
    for number, line in enumerate(template.splitlines(), 1):

        def known(key: str, at: int = number) -> str:
            if key not in values:
                raise ContentError(f"image.def.in: line {at}: no key {key!r}; known: {', '.join(sorted(values))}")
            return values[key]

        if line.startswith("#-"):
            continue
        if line.startswith("#?"):
            kept.append(bool(known(line[2:].strip())))
        elif line.strip() == "#.":
            if not kept:
                raise ContentError(f'image.def.in: line {number}: "#." without "#? KEY" before it')
            kept.pop()
        elif all(kept):
            lines.append(re.sub(r"@([a-z_]+)@", lambda match: known(match[1]), line))
    if kept:
        raise ContentError('image.def.in: a "#? KEY" has no "#."')
    return "\n".join(lines) + "\n"
