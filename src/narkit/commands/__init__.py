"""What the command line does, one file per command. `narkit.cli` declares the options and imports these when needed."""
