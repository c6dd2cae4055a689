"""A final model that is the base model, by a link to where it is mounted."""

import os

os.symlink("/opt/ptb/base_model", "final_model")
print("did modelbase")
