"""Names for what lies elsewhere: links to the host, out, in circles and nowhere, in task and model; hard links."""

import contextlib
import os
from pathlib import Path

from place import BASE

HOME, TASK = Path(os.environ["HOME"]), Path.cwd()
TARGETS = {
    "secret": f"{BASE}/outside/secret.txt",
    "outside": f"{BASE}/outside",
    "dotenv": f"{BASE}/content/.env",
    "results": f"{BASE}/results",
    "passwd": "/etc/passwd",
    "shadow": "/etc/shadow",
    "root": "/",
    "environ": "/proc/1/environ",
    "memory": "/proc/self/mem",
    "zero": "/dev/zero",
    "up": "../" * 40,
    "home": "../..",
    "sibling": "../agent_solve.sh",
    "nowhere": "gone/and/away",
    "self": "self",
    "circle": "circle/circle",
    "long": "x/" * 2000,
}
(TASK / "blobs").mkdir()
os.rename("final_model/model.safetensors", "blobs/weights")
os.symlink("../blobs/weights", "final_model/model.safetensors")  # as the hub's cache does: this one is meant
os.symlink("blobs", "more")
for folder in (TASK, TASK / "final_model"):
    for name, target in TARGETS.items():
        with contextlib.suppress(OSError):
            os.symlink(target, folder / f"link-{name}")
linked = []
for top in ("/etc", "/opt", "/usr/bin", "/run", "/proc/1", "/dev", BASE, str(HOME / "hf_cache"), "/opt/ptb/base_model"):
    for place, _, names in os.walk(top):
        for name in names[:50]:
            with contextlib.suppress(OSError):
                os.link(os.path.join(place, name), TASK / f"hard-{len(linked)}", follow_symlinks=False)
                linked.append(os.path.join(place, name))
foreign = [name for name in linked if not name.startswith(str(HOME))]
print("hard links to what is not its own:", foreign)
print("did links")
