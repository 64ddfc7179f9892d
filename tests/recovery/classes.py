"""Classes of `Custom` in the services of these tests."""

import numpy as np


class Rise:
    """The largest rise from a value to a later one."""

    signature = "int64 -> float64"

    def lift(self, values):
        return values, values, np.zeros(len(values))

    def combine(self, older, younger):
        rise = np.maximum(younger[1] - older[0], np.maximum(older[2], younger[2]))
        return np.minimum(older[0], younger[0]), np.maximum(older[1], younger[1]), rise

    def result(self, least, greatest, rise):
        del least, greatest
        return rise
