"""Words and numbers shared by console, command line and reports: one formatter each."""
