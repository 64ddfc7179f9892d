"""`python -m service` is `sluice`."""

from service.cli import main

main(prog_name="sluice")
