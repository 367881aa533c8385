"""`python -m narkit` is `narkit`."""

from narkit.cli import main

main()
