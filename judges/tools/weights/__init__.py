"""The comparison of weights in parts; `model_weights_check.py` beside this folder is its command."""
