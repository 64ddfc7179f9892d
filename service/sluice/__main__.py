"""`python -m sluice` is `sluice`."""

from sluice.cli import main

main(prog_name="sluice")
