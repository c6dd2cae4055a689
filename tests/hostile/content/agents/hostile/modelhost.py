"""A final model that lies on the host, outside the sandbox."""

import os

from place import BASE

os.symlink(f"{BASE}/outside/model", "final_model")
print("did modelhost")
