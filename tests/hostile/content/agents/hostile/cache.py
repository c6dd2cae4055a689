"""Write where models are read: the hub's cache and the base model."""

import contextlib
import os


def append(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b"PLANTED")


done = []
model = os.environ.get("PTB_BASE_MODEL_PATH", "/opt/ptb/base_model")
for top in (model, os.environ["HF_HOME"], "/home/ben/hf_cache", "/opt", "/opt/ptb"):
    for path, _, names in os.walk(top):
        for name in [*names, "planted.bin"]:
            target = os.path.join(path, name)
            for act in (
                lambda target=target: append(target),
                lambda target=target: os.chmod(target, 0o777),
                lambda target=target: os.utime(target, (1, 1)),
                lambda target=target: os.rename(target, target + ".moved"),
            ):
                with contextlib.suppress(OSError):
                    act()
                    done.append(target)
print("could change of the base model:", [path for path in done if path.startswith(model)])
print("could write to its cache:", any(path.startswith(os.environ["HF_HOME"]) for path in done))
print("did cache")
