"""The contamination checker in parts; `contamination_check.py` beside this folder is its command."""
