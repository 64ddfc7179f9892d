"""A real S3 server in a process of its own: S3Proxy, which keeps its objects in memory.

Its jar is fetched once (93 MB), as the other jars are, into a folder beside theirs; SLUICE_S3 names another folder.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from sluice.checkpoint.object_store import ObjectStore
from sluice.jvm.java import find_java
from sluice.kafka.embedded_broker import free_ports
from sluice.processes import ChildProcess
from tests.fetched_jars import fetched

HERE = Path(__file__).parent
SECONDS = 120
KEY, SECRET, REGION, BUCKET = "a-key", "a-secret", "us-east-1", "bucket"
PROPERTIES = """
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={key}
s3proxy.credential={secret}
s3proxy.ignore-unknown-headers=true
s3proxy.maximum-timeskew={skew}
jclouds.provider=transient-nio2
jclouds.identity=x
jclouds.credential=x
"""


class S3Server:
    """The server, with one bucket. `stop` loses its objects; `start` makes a new server on the same port.

    Without `accepts_times` it refuses the time of each signature, as a server does whose clock is wrong. It then has no
    bucket.
    """

    def __init__(self, folder: Path, *, accepts_times: bool = True) -> None:
        (self.port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._accepts_times = accepts_times
        self._process: ChildProcess | None = None

    def start(self) -> None:
        properties, log = self._folder / "s3.properties", self._folder / "s3.log"
        skew = 900 if self._accepts_times else -900  # seconds
        properties.write_text(PROPERTIES.format(port=self.port, key=KEY, secret=SECRET, skew=skew))
        command = [find_java(), "-Xmx512m", "-XX:+UseSerialGC", "-jar", str(_jar()), "--properties", str(properties)]
        self._process = ChildProcess(command, self._folder, log)
        deadline = time.monotonic() + SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process:
            self._process.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def options(self) -> dict[str, str]:
        """What a pipeline file has as `state_options`."""
        return {
            "endpoint": self.endpoint, "region": REGION, "access_key_id": KEY, "secret_access_key": SECRET,
            "allow_http": "true",
        }  # fmt: skip

    def store(self, prefix: str, **options: str) -> ObjectStore:
        return ObjectStore(f"s3://{BUCKET}/{prefix}", tuple(sorted((self.options | options).items())))

    def _answers(self) -> bool:
        """Whether it has made the bucket, or refuses to."""
        url = f"{self.endpoint}/{BUCKET}"
        try:
            with urlopen(Request(url, method="PUT", headers=_signed("PUT", url)), timeout=5):  # noqa: S310 - ours
                return True
        except HTTPError as error:
            return not self._accepts_times and error.code == HTTPStatus.FORBIDDEN
        except (URLError, OSError):
            return False


def _signed(method: str, url: str) -> dict[str, str]:
    """The headers of a request without a body, signed as AWS says (Signature Version 4)."""
    parts, at = urlsplit(url), datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope, empty = f"{at[:8]}/{REGION}/s3/aws4_request", hashlib.sha256(b"").hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    headers = f"host:{parts.netloc}\nx-amz-content-sha256:{empty}\nx-amz-date:{at}\n"
    request = hashlib.sha256(f"{method}\n{parts.path}\n\n{headers}\n{names}\n{empty}".encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{request}".encode(), "sha256").hex()
    credential = f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {"x-amz-date": at, "x-amz-content-sha256": empty, "Authorization": credential}


def _jar() -> Path:
    return next(fetched("s3", HERE / "ivy.xml", "jar").glob("*.jar"))
