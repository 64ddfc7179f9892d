"""A checkpoint store in memory: the second implementation of the contract, as an object store would be one."""

from __future__ import annotations

import io
from dataclasses import dataclass, field


@dataclass
class MemoryStore:
    objects: dict[str, bytes] = field(default_factory=dict)

    def get(self, name):
        if name not in self.objects:
            raise FileNotFoundError(name)
        return MemoryObject(self.location(name), self.objects[name])

    def put(self, name, write):
        file = io.BytesIO()
        write(file)
        self.objects[name] = file.getvalue()

    def create(self, name, data):
        return self.objects.setdefault(name, data) is data

    def list(self, prefix="", *, incomplete=False):
        return (name for name in list(self.objects) if name.startswith(prefix) and not incomplete)

    def delete(self, name):
        self.objects.pop(name, None)

    def location(self, name=""):
        return f"memory:{name}"


@dataclass
class MemoryObject:
    location: str
    data: bytes

    @property
    def size(self):
        return len(self.data)

    def read_into(self, start, room):
        part = self.data[start : start + len(room)]
        room[: len(part)] = part
        return len(part)

    def content(self):
        return memoryview(self.data)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
