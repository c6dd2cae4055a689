#!/bin/bash
# Starts the scripted agent: its files are in $HOME/agent, the working directory is the task.
exec python3 "$HOME/agent/agent.py"
