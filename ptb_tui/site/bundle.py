"""The frozen copy of program and content that a run uses from submit to score (design §7, case A03).

Content-addressed, `_ptb/bundles/<digest>/`, started as `<python> -I <bundle>/ptb VERB`. A manifest lists every file;
files that may hold secrets are refused by name and by mode.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from pathlib import Path

import ptb_tui
from ptb_tui.content.frozen import kept, walk
from ptb_tui.content.lookup import KINDS, Content
from ptb_tui.core import files
from ptb_tui.core.layout import Root

# Folders of content that belong together; anything else in a folder named `tasks` is not ours.
_PARTS = {
    "agents": ("_shared",),
    "tasks": ("shared", "templates", "prompts", "protocols"),
    "judges": ("calibration", "tools"),
    "containers": ("models",),
}
_FILES = {  # tables that a run or work on the site reads
    "containers": ("clis.toml", "hub_manifest.json", "image.def.in", "images.toml", "requirements-direct.txt")
}


def manifest(content: Content) -> dict[str, Path]:
    """Relative name → source of everything in the bundle; earlier folders of the content path win."""
    package = Path(ptb_tui.__file__).resolve().parent
    found: dict[str, Path] = {}
    for folder, name in ((package, "ptb_tui"), (package.parent / "backends", "backends")):
        for path in walk(folder):
            relative = path.relative_to(folder)
            if relative.parts[0] != "_content":
                found[f"{name}/{relative}"] = path
    found["ptb"] = package / "__main__.py"
    for kind in (kind for kind in KINDS if kind != "sweeps"):
        chosen: dict[str, Path] = {}
        for base in content.paths:
            parts = (*content.names(kind), *_PARTS.get(kind, ()))
            for name in parts:
                if (base / kind / name).is_dir():
                    if name in _PARTS.get(kind, ()):  # shared folders are laid over each other, file by file
                        for path in walk(base / kind / name):
                            chosen.setdefault(f"{kind}/{name}/{path.relative_to(base / kind / name)}", path)
                    elif not any(key.startswith(f"{kind}/{name}/") for key in chosen):
                        for path in walk(base / kind / name):
                            chosen[f"{kind}/{name}/{path.relative_to(base / kind / name)}"] = path
        for name in _FILES.get(kind, ()):
            if (file := content.file(f"{kind}/{name}")) is not None:
                chosen[f"{kind}/{name}"] = file
        found |= chosen
    return {name: path for name, path in sorted(found.items()) if kept(path)}


def digest_of(sources: dict[str, Path]) -> str:
    """Digest over names and bytes, 16 hex digits."""
    digest = hashlib.sha256()
    for name, path in sources.items():
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def ensure(root: Root, content: Content) -> str:
    """Make the bundle of this program and content below the root if it is not there; returns its digest."""
    sources = manifest(content)
    digest = digest_of(sources)
    target = root.own("bundles") / digest
    if (target / "manifest.json").is_file():
        return digest
    temporary = target.with_name(f".{digest}.{uuid.uuid4().hex[:8]}")
    for name, path in sources.items():
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, temporary / name)
    listing = {name: hashlib.sha256((temporary / name).read_bytes()).hexdigest() for name in sources}
    files.replace(temporary / "manifest.json", files.dump(listing))
    try:
        os.rename(temporary, target)
    except OSError:  # another process was faster
        shutil.rmtree(temporary, ignore_errors=True)
    return digest
