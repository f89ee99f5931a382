"""`python -m ordbm`: the command line."""

from ordbm.cli import main

main()
