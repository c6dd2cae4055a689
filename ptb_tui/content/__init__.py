"""Reading content folders: agents, tasks, judges, protocols, prompts. A folder is the plug-in (design §3)."""
