"""Classes for `Custom`: right ones, and one for each mistake."""

import math


class Range:
    signature = "float64 -> float64"

    def init(self):
        self.least, self.most = math.inf, -math.inf

    def add(self, value):
        self.least, self.most = min(self.least, value), max(self.most, value)

    def result(self):
        return self.most - self.least


class Longest:
    """Of two arguments, one of any type: those of the longest text."""

    signature = "string, any -> any"

    def init(self):
        self.best = ("", None)

    def add(self, text, companion):
        self.best = max(self.best, (text, companion), key=lambda pair: len(pair[0]))

    def result(self):
        return self.best[1]


class Tuples:
    signature = "-> list<int64>"

    def init(self):
        self.numbers = []

    def add(self):
        self.numbers.append(len(self.numbers))

    def result(self):
        return self.numbers


class Fails(Range):
    def result(self):
        if self.most > 5:
            raise ArithmeticError("too much")
        return None if self.most > 4 else "text" if self.most > 3 else self.most


class NoSignature:
    init = add = result = print


class NoResult:
    signature = "int64 -> int64"
    init = add = print


class WrongWord(Range):
    signature = "number -> float64"


class WrongCount(Range):
    signature = "float64, float64 -> float64"


class Unbound(Range):
    signature = "float64 -> any"


class NeedsArguments(Range):
    def __init__(self, size):
        self.size = size


not_a_class = 5
