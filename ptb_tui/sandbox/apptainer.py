"""Isolation by Apptainer over an image: own process, IPC and network namespaces, nothing of the host but the binds.

Inside, the command is the operator's own user with home /home/ben; what it changes in the image goes to a folder of the
step's scratch. Values of variables are never words of a command line. SIGTERM is the caller's matter: it goes to the
processes inside (`run.processes`), because the runtime's helpers, which hold the file system, would end by it too.

Singularity is the same class. It has no switch against the evaluation of values by a shell, so they are passed in
base64 and unpacked inside.

Limits. The host's name, the operator's login name and /etc/resolv.conf are visible inside; RLIMIT_NPROC counts per
sandbox with user namespaces, per user of the machine where the runtime is installed setuid; every GPU can be opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptb_tui.core.errors import StepError
from ptb_tui.sandbox import devices, runtime, system
from ptb_tui.sandbox.base import BEGAN, BEGIN, HOME, NAME, Command, Request, began_file, check, folder, passed, refuse
from ptb_tui.sandbox.forwarding import (
    FORWARDER,
    FORWARDER_INSIDE,
    GATEWAY_INSIDE,
    PORT,
    forwarded,
    proxy_words,
    socket_folder,
)
from ptb_tui.sandbox.image import CONTAINED, PRIVATE, Facts, examine
from ptb_tui.sandbox.mounts import checked

_ENCODED = "PTB64_"
_LIBRARIES = "/.singularity.d/libs"
_OWN = tuple(
    f"{flavour}_{what}"
    for flavour in ("APPTAINER", "SINGULARITY")
    for what in ("APPNAME", "BIND", "COMMAND", "CONTAINER", "ENVIRONMENT", "NAME", "NO_EVAL")
)
_DECODE = (  # the x keeps line breaks at the end; base64 is found before PATH changes
    f"ptb_decode=$(command -v base64); for ptb_name in $(env | sed -n 's/^{_ENCODED}\\([A-Za-z0-9_]*\\)=.*/\\1/p'); do "
    f'eval "ptb_value=\\$(printf %s \\"\\${_ENCODED}$ptb_name\\" | $ptb_decode -d; echo x)"; '
    f'export "$ptb_name=${{ptb_value%x}}"; unset "{_ENCODED}$ptb_name"; done; unset ptb_decode ptb_name ptb_value; '
)


class Apptainer:
    """Runs commands in `image`, a .sif file or an unpacked folder.

    With `prefixes` the interpreter that runs us is shown at its own path and runs our scripts; without, the image's
    `python3` does. `name` is apptainer or singularity, and what is looked for when `executable` is not given. `scratch`
    is on the disk where steps will have theirs: not every file system can hold what is changed in an image.
    """

    isolated = True

    def __init__(
        self,
        image: Path | None,
        *,
        name: str = "apptainer",
        executable: str | None = None,
        prefixes: Sequence[Path] = (),
        scratch: Path | None = None,
    ) -> None:
        self.name, self.image, self._prefixes, self._scratch = name, image, tuple(prefixes), scratch
        self.runtime = runtime.find(name) if executable is None else executable

    def home_inside(self, home: Path) -> str:
        """Always /home/ben (H §1.3)."""
        return HOME

    def place(self) -> Path:
        """The image as it can be started here: the file, or its unpacked folder. StepError."""
        return self._facts()[1].place

    def path(self) -> tuple[str, ...]:
        """The image's own, after the interpreter that runs us when it is shown."""
        first = (os.path.dirname(sys.executable),) if self._prefixes else ()
        return (*first, *self._facts()[1].path)

    def python(self) -> str:
        """The image's python3, or the interpreter that runs us when it is shown. StepError when there is none."""
        if self._prefixes:
            return sys.executable
        if not (found := self._facts()[1].python):
            raise refuse(f"the image {self.image} has no python3", hint="`ptb-tui container build`")
        return found

    def probe(self) -> tuple[bool, str]:
        """Starts the image once; why that fails, or the runtime with its version."""
        try:
            found, _ = self._facts()
        except StepError as error:
            return False, f"{error.message}; {error.hint}" if error.hint else error.message
        return True, f"{found.path} {found.version}"

    def command(self, request: Request) -> Command:
        """The command; HOME, PWD and what the image itself sets come besides the given environment.

        StepError(cause="sandbox") when the request cannot be met, "image_missing" without the image.
        """
        check(request)
        found, facts = self._facts()
        if request.scratch is None:
            raise refuse(f"{self.name} needs a folder for what a command changes in its image")
        if request.argv[0] == "bash" and not facts.bash:
            raise refuse(f"the image {self.image} has no bash", hint="`ptb-tui container build`")
        notes, network = list(facts.notes), request.network
        if network != "full" and not facts.private:
            if network != "gateway" or not request.open_network:
                raise refuse(f"network {network} cannot be had: {found.flavour} may not make a network namespace here")
            network = "open"
            notes.append("open network: network namespaces are refused here, so nothing records what the command does")
        env, inner = _inside(request.env), request.argv
        encoded = found.encoded or not _is_text("".join(env.values()))
        words = [found.path, "-q", "exec", "--cleanenv", *(() if found.encoded else ("--no-eval",))]
        words += [*CONTAINED, *(() if network in ("full", "open") else PRIVATE)]
        if request.gpus:
            nodes, _ = devices.nodes(request.gpus)
            words.append("--nv")
            env.setdefault("CUDA_VISIBLE_DEVICES", ",".join(request.gpus))
            if sum(path.name[6:].isdigit() for path in nodes) < len(list(devices.DEV.glob("nvidia[0-9]*"))):
                notes.append("every GPU of this machine can be opened; CUDA_VISIBLE_DEVICES tells which to use")
        began = _fill(request.scratch)
        tmp = request.scratch / "tmp"
        if request.tmp is not None:
            folder(request.tmp, "the directory for /tmp")
            tmp = request.tmp
        binds = [(tmp, "/tmp", True), (tmp, "/var/tmp", True), (began, BEGAN, True)]
        binds += [(prefix, str(prefix), False) for prefix in self._shown()]
        binds += [(bind.source, bind.target, bind.writable) for bind in checked(request)]
        if network == "gateway":
            binds += [(socket_folder(request), GATEWAY_INSIDE, False), (FORWARDER, FORWARDER_INSIDE, False)]
            inner, env = forwarded(self.python(), request), env | proxy_words(PORT)
        words += ["--home", f"{_plain(request.home)}:{HOME}", "--pwd", _plain(f"{HOME}/{request.workdir}")]
        for source, target, writable in binds:
            words += ["--bind", f"{_plain(source)}:{_plain(target)}{'' if writable else ':ro'}"]
        words += ["--overlay", _plain(request.scratch / "overlay"), _plain(facts.place)]
        words += ["/bin/sh", "-c", _script(env, bool(request.gpus), encoded), "ptb", *inner]
        outer = runtime.outer_environment()
        outer[found.prefix.replace("ENV_", "_TMPDIR")] = str(request.scratch)
        prefix = found.prefix + (_ENCODED if encoded else "")
        return Command(
            tuple(words),
            outer | passed(env, prefix, encoded),
            Path("/"),
            {"RLIMIT_NPROC": request.max_processes},
            tuple(notes),
            network=network,
            prefix=prefix,
            encoded=encoded,
            began=began,
        )

    def _facts(self) -> tuple[runtime.Runtime, Facts]:
        found = runtime.usable(self.name, self.runtime)
        if isinstance(found, str):
            raise refuse(found, hint="`ptb-tui doctor` says what this machine allows")
        if self.image is None:
            raise StepError(
                f"{self.name} has no image for this protocol (`ptb-tui container list`)", cause="image_missing"
            )
        return found, examine(found, self.image, self._scratch)

    def _shown(self) -> list[Path]:
        prefixes = system.prefix_folders(self._prefixes, system.private_places())
        if any(prefix == Path("/usr") for prefix in prefixes):
            raise refuse(
                "the interpreter that runs ptb-tui is part of this system and cannot be shown over an image",
                hint="run ptb-tui with a Python of its own, or use an image with Python and what the task needs",
            )
        return prefixes


def _inside(env: Mapping[str, str]) -> dict[str, str]:
    """The variables to pass. HOME comes from the runtime itself."""
    found = dict(env)
    if found.pop("HOME", HOME) != HOME:
        raise refuse(f"HOME is {HOME} over an image")
    for name in found:
        if not NAME.fullmatch(name):
            raise refuse(f"the environment variable {name!r} cannot be passed through a shell")
    return found


def _is_text(value: str) -> bool:
    """Whether a value passes through the runtime, which knows text alone."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _plain(path: object) -> str:
    """A path as part of a bind, which has no quoting in the older runtimes."""
    text = str(path)
    if any(sign in text for sign in ':,\\"\n'):
        raise refuse(f'{text!r} cannot be shown over an image: its name holds one of : , \\ " or a line break')
    return text


def _fill(scratch: Path) -> Path:
    """Make what a start needs in the scratch; returns the file that the command changes when it begins."""
    began = began_file(scratch)
    for name in ("overlay", "tmp"):
        (scratch / name).mkdir(mode=0o700, exist_ok=True)
    return began


def _script(env: dict[str, str], gpus: bool, encoded: bool) -> str:
    """What /bin/sh does inside before it becomes the command: says that it began, takes away what the runtime added."""
    own = [name for name in (*_OWN, "LANG", "PROMPT_COMMAND", "PS1") if name not in env]
    words = f"{BEGIN}unset {' '.join(own)}; "
    if not gpus:
        words += (
            f"LD_LIBRARY_PATH=${{LD_LIBRARY_PATH%{_LIBRARIES}}}; LD_LIBRARY_PATH=${{LD_LIBRARY_PATH%:}}; "
            '[ -n "$LD_LIBRARY_PATH" ] || unset LD_LIBRARY_PATH; '
        )
    return words + (_DECODE if encoded else "") + 'exec "$@"'
