"""The HTTP application of the lab: the page, its presets and its answers. It serves this machine only.
A page of another site must not reach it: the Host must be this machine's name (against DNS rebinding), and a request
with an Origin must come from the lab's own page. Requests must be JSON, which a page of another site can send only
after a preflight request (CORS), which is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sluice.api.class_loader import search_beside
from sluice.files import PACKAGE, project_file, read_file
from sluice.json_texts import text_with_digits
from sluice.lab.lab_answer import MAX_EVENTS, Event, answer, parsed, test_of
from sluice.model.errors import SluiceError
from sluice.pictures.svg_drawing import WIDTH

#: the example that the lab starts with
FIRST = "moving_average"


@dataclass(frozen=True, slots=True)
class Preset:
    """`path` is the file from which `text` comes: schema files and modules are looked for beside it."""

    name: str
    path: str
    text: str
    events: tuple[Event, ...]


def presets(file: Path | None, events: Path | None) -> Mapping[str, Preset]:
    """The presets by name: the user's own file, the examples that have events, and the other examples."""
    by_name = {}
    if file is not None:
        by_name[file.name] = _preset(file.name, file, events)
    folder = project_file("examples")
    for example in sorted(folder.rglob("*.yaml"), key=lambda path: _order(path, folder)):
        name = str(example.relative_to(folder).with_suffix(""))
        by_name.setdefault(name, _preset(name, example, example.with_suffix(".jsonl")))
    return by_name


def recorded(name: str, path: str, text: str, events: Sequence[Event]) -> Preset:
    """A pipeline with records of a topic: the newest, of which the lab takes MAX_EVENTS."""
    return Preset(name, path, text, tuple(events[-MAX_EVENTS:]))


def as_text(event: Event) -> Event:
    """The event with its content, an object, as JSON text: a number of JavaScript would round a large int64."""
    return {key: text_with_digits(value) if isinstance(value, dict) else value for key, value in event.items()}


def _order(example: Path, folder: Path) -> tuple[bool, bool, bool, str]:
    """The sort key: the first example, then examples with events; examples of inner folders come last."""
    return not example.with_suffix(".jsonl").exists(), example.stem != FIRST, example.parent != folder, str(example)


def _preset(name: str, file: Path, events: Path | None) -> Preset:
    preset_events = parsed(_text(events)) if events is not None and events.exists() else []
    search_beside(file)
    return Preset(name, str(file), _text(file), tuple(preset_events))


def _text(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise SluiceError(message) from None
    except UnicodeDecodeError:
        message = f"cannot read {path}: it is not UTF-8"
        raise SluiceError(message) from None


ADDRESS = "127.0.0.1"
HOSTS = ["127.0.0.1", "localhost"]
#: the most bytes of a request
MAX_BODY = 2 << 20
#: the least and the most width of the page's picture, pixels
MIN_WIDTH, MAX_WIDTH = 200, 4_000
STATIC = PACKAGE / "lab" / "static"
#: the path of each file that is served; the style sheet is the one of the page of the service, too
PAGES = {
    "/": STATIC / "lab.html", "/lab.css": STATIC / "lab.css", "/lab.js": STATIC / "lab.js",
    "/sluice.css": PACKAGE / "page" / "static" / "sluice.css",
}  # fmt: skip
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def application(presets: Mapping[str, Preset]) -> Starlette:
    """The application with these presets."""
    shown = [
        {"name": preset.name, "text": preset.text, "events": [*map(as_text, preset.events)]}
        for preset in presets.values()
    ]

    async def presets_of(request: Request) -> Response:
        del request
        return JSONResponse(shown, headers=HEADERS)

    async def story(request: Request) -> Response:
        return await _answered(request, lambda body: JSONResponse(_timed(body, presets), headers=HEADERS))

    async def test(request: Request) -> Response:
        return await _answered(request, lambda body: _exported(*_arguments(body, presets)))

    routes = [
        Route("/api/presets", presets_of),
        Route("/api/story", story, methods=["POST"]),
        Route("/api/test", test, methods=["POST"]),
        *(Route(path, _page(file)) for path, file in PAGES.items()),
    ]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)])


def serve(presets: Mapping[str, Preset], port: int, ready: Callable[[str], object]) -> None:
    """Serves until the process is interrupted. `ready` is called with the address of the page when it is served.

    Port 0 means any free port.
    """
    config = uvicorn.Config(application(presets), host=ADDRESS, port=port, log_level="warning", lifespan="off")
    listening = config.bind_socket()
    with listening:
        ready(f"http://{ADDRESS}:{listening.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listening])


def _page(file: Path) -> Callable[[Request], Any]:
    async def page(request: Request) -> Response:
        del request
        return FileResponse(file, headers=HEADERS)

    return page


async def _answered(request: Request, give: Callable[[Mapping[str, Any]], Response]) -> Response:
    """The response of `give` to a request from the page of the lab; an error for any other request."""
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{request.headers.get('host')}":
        return PlainTextResponse(
            "the request comes from the page of another site; open the address that `sluice lab` prints",
            403,
            headers=HEADERS,
        )
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        return PlainTextResponse("expected a request with the content type application/json", 415, headers=HEADERS)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            return PlainTextResponse(f"expected a request of at most {MAX_BODY >> 20} MiB", 413, headers=HEADERS)
    try:
        message = json.loads(body)
    except ValueError:
        message = None
    if not _sound(message):
        form = '{"text": ..., "events": [...], "preset": ..., "view": {...}}'
        return PlainTextResponse(f"expected {form}", 400, headers=HEADERS)
    try:
        return await run_in_threadpool(give, message)
    except SluiceError as error:
        return PlainTextResponse(str(error), 422, headers=HEADERS)


def _sound(body: object) -> bool:
    if not isinstance(body, dict) or not isinstance(body.get("text"), str):
        return False
    events, view = body.get("events"), body.get("view", {})
    return isinstance(events, list) and all(isinstance(event, dict) for event in events) and _is_view(view)


def _is_view(view: object) -> bool:
    """Whether it is an object with texts and numbers, and a width that a screen has."""
    if not isinstance(view, dict) or not all(isinstance(value, str | int | float | None) for value in view.values()):
        return False
    width = view.get("width", WIDTH)
    return isinstance(width, int | float) and MIN_WIDTH <= width <= MAX_WIDTH


def _arguments(body: Mapping[str, Any], presets: Mapping[str, Preset]) -> tuple[str, list[dict[str, Any]], str]:
    """The pipeline, the events, and the path of the preset from which the pipeline was made."""
    preset = presets.get(str(body.get("preset")))
    return body["text"], body["events"], preset.path if preset is not None else "pipeline.yaml"


def _exported(text: str, events: list[dict[str, Any]], file: str) -> Response:
    try:
        return PlainTextResponse(test_of(text, events, file), headers=HEADERS)
    except SluiceError as error:  # without the folder of the file, as in an answer
        return PlainTextResponse(str(error).replace(file, Path(file).name), 422, headers=HEADERS)


def _timed(body: Mapping[str, Any], presets: Mapping[str, Preset]) -> dict[str, Any]:
    start = time.perf_counter()
    answered = answer(*_arguments(body, presets), body.get("view"))
    return answered | {"milliseconds": round((time.perf_counter() - start) * 1000, 1)}
