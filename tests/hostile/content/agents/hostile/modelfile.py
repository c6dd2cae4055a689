"""A final model that is a pipe nobody writes to."""

import os

os.mkfifo("final_model")
print("did modelfile")
