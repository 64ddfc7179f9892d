"""On PYTHONPATH of a service: stops it between Kafka's commit of a batch and Spark's log of it, when it is asked to.

Asked: the file that SLUICE_TEST_PAUSE names exists. It gets the ending `.reached` when the moment is there.
"""

import os
import sys
import time
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path

MODULE = "sluice.kafka.transactions"


class Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        spec.loader = Pausing(spec.loader)
        return spec


class Pausing(Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        write = module.TransactionalWriter.write

        def paused(*arguments, **named):
            written = write(*arguments, **named)
            asked = Path(os.environ["SLUICE_TEST_PAUSE"])
            if asked.exists():
                asked.rename(f"{asked}.reached")
                time.sleep(3600)
            return written

        module.TransactionalWriter.write = paused


if "SLUICE_TEST_PAUSE" in os.environ:
    sys.meta_path.insert(0, Finder())
