"""The HTTP application of the page that shows a running service: HTML, and the same contents as JSON under `/api`.

It also answers with event files, which `sluice replay` reads: the last outputs and dead letters of a stream. All
requests but GET and HEAD are refused.

The page shows contents of topics and windows. So with `--page local`, the default, it answers only programs on this
machine: the client's address must be a loopback address. The Host header must name this machine, so that a web page
of another host cannot read the answers through a browser (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import jinja2
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sluice.files import PACKAGE
from sluice.page import batch_bars, times
from sluice.page.graph_drawing import graph
from sluice.page.last_records import columns_of, event_file
from sluice.page.pipeline_pages import Pages, PipelinePage
from sluice.page.pipeline_status import Status, status, summary, windows_of
from sluice.page.times import time_units

FOLDER = PACKAGE / "page"
STATIC = {"sluice.css": "text/css", "page.js": "text/javascript"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
#: number of requests of the page that are answered at the same time; metrics and health do not count
AT_ONCE = 4
#: maximum length of a key in a search
MAX_KEY = 4096
LOCAL_NAMES = {"localhost", "127.0.0.1", "[::1]"}
FORBIDDEN = """\
The page shows the content of topics. So this service answers only programs on its own machine (--page local, the
default).
{why}

What to do:
  on the same machine  open http://localhost:{port}/
  another machine      ssh -L {port}:localhost:{port} HOST, and then open http://localhost:{port}/
  Kubernetes           kubectl port-forward POD {port}, and then open http://localhost:{port}/
  Docker               publish the port to Docker's machine only, and start with --page open:
                       docker run --publish 127.0.0.1:{port}:{port} ... sluice run FILE --page open
                       In docker-compose.yml: ports: ["127.0.0.1:{port}:{port}"], and --page open in `command`.
                       To the service, a browser outside of the container is always on another machine.
  another name, a proxy, or a closed network
                       start with --page open: everyone who reaches the port then gets the page, by any name.
"""
#: characters of a refused name in the answer
MAX_NAME = 100

Scope = MutableMapping[str, Any]
Answer = Callable[[Request], Response]


def application(pages: Pages, *, local: bool = True) -> Callable[[Scope, Any, Any], Awaitable[None]]:
    """The ASGI application. `local`: whether only programs on this machine may use it."""
    answers = _Answers(pages)
    routes = [
        Route("/", answers.answering(answers.first)),
        Route("/pipelines/{name}", answers.answering(answers.pipeline)),
        Route("/pipelines/{name}/windows", answers.answering(answers.windows)),
        Route("/pipelines/{name}/events/{stream}.jsonl", answers.answering(answers.events)),
        Route("/api/pipelines", answers.answering(answers.api_all)),
        Route("/api/pipelines/{name}", answers.answering(answers.api_pipeline)),
        Route("/api/pipelines/{name}/windows", answers.answering(answers.api_windows)),
        Route("/api/pipelines/{name}/keys", answers.answering(answers.api_keys)),
        Route("/api/pipelines/{name}/records", answers.answering(answers.api_records)),
        *(Route(f"/static/{name}", partial(_static, name)) for name in STATIC),
    ]
    inner = Starlette(routes=routes)

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has it
        if local and scope["type"] == "http" and not is_local(Request(scope)):
            await PlainTextResponse(forbidden(Request(scope)), 403, headers=HEADERS)(scope, receive, send)
            return
        await inner(scope, receive, send)

    return guarded


def is_local(request: Request) -> bool:
    """Whether the client is on this machine and has used a name of this machine."""
    return _is_near(request) and _name(request).lower() in LOCAL_NAMES


def forbidden(request: Request) -> str:
    """The answer to a request that `is_local` refuses: why, and what to do."""
    port = (request.scope.get("server") or ("", None))[1] or "PORT"
    client = request.client.host if request.client is not None else "an unknown address"
    if _is_near(request):
        names = ", ".join(sorted(LOCAL_NAMES, reverse=True))
        why = f"This request names the host {_name(request)[:MAX_NAME]!a}; the names of this machine are {names}."
    else:
        why = f"This request comes from {client}, which is another machine or another container."
    return FORBIDDEN.format(why=why, port=port)


def _is_near(request: Request) -> bool:
    """Whether the client has a loopback address."""
    client = request.client.host if request.client is not None else ""
    try:
        near = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return False
    return (getattr(near, "ipv4_mapped", None) or near).is_loopback


def _name(request: Request) -> str:
    """The name in the Host header, without the port."""
    host = request.headers.get("host", "")
    return host if host.endswith("]") else host.rpartition(":")[0] or host


async def _static(name: str, _: Request) -> Response:
    return FileResponse(FOLDER / "static" / name, headers=HEADERS, media_type=STATIC[name])


class _Answers:
    """The answers to requests. They run in threads, AT_ONCE at a time."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._limiter: anyio.CapacityLimiter | None = None
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )  # fmt: skip
        for name in ("moment", "second", "duration", "rate", "size", "nanoseconds", "from_seconds", "shown"):
            self._templates.filters[name] = getattr(times, name)
        self._templates.filters["path"] = partial(quote, safe="")
        self._templates.filters["code"] = _code

    def answering(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            if self._limiter is None:
                self._limiter = anyio.CapacityLimiter(AT_ONCE)
            return await anyio.to_thread.run_sync(answer, request, limiter=self._limiter)

        return endpoint

    # ---- HTML --------------------------------------------------------------------------------------------------------

    def first(self, request: Request) -> Response:
        """The first page: the list of pipelines or, if the service can have only one pipeline, the page of that one."""
        if not self._pages.several and self._pages.all:
            return self._shown(self._pages.all[0], request)
        return self._html(
            "pipelines.html", pipelines=self._summaries(), wrong_files=self._pages.wrong_files, title="Pipelines"
        )

    def _summaries(self) -> list[Status]:
        described = self._pages.described()
        return [summary(page, described[page.name]) for page in self._pages.all if page.name in described]

    def _about(self, page: PipelinePage) -> dict[str, Any]:
        return self._pages.described()[page.name]

    def pipeline(self, request: Request) -> Response:
        page = self._page(request)
        return _missing() if page is None else self._shown(page, request)

    def _shown(self, page: PipelinePage, request: Request) -> Response:
        del request
        described = status(page, self._about(page))
        records = page.records()
        dead = page.pipeline.dead_letters
        shown = records.value or {}
        return self._html(
            "pipeline.html", title=page.name, pipeline=described, several=self._pages.several,
            graph=graph(page, described),
            bars={stage.pipeline.name: batch_bars.drawing(stage.history.batches) for stage in page.stages},
            phases=[*batch_bars.PHASES.values(), batch_bars.OTHER], records=shown, reading=records.value is None,
            dead=dead, columns={name: columns_of(rows) for name, rows in shown.items()}, lines=_lines,
            keys=page.keys(""), units=time_units(page.pipeline),
        )  # fmt: skip

    def windows(self, request: Request) -> Response:
        page, key = self._page(request), _key(request)
        if page is None:
            return _missing()
        answer = windows_of(page, key)
        return self._html(
            "windows.html",
            title=f"{key or 'windows without keys'} · {page.name}",
            pipeline=summary(page, self._about(page)),
            answer=answer, keys=page.keys(""), units=time_units(page.pipeline),
        )  # fmt: skip

    def _html(self, template: str, **values: Any) -> Response:  # noqa: ANN401 - what the template shows
        text = self._templates.get_template(template).render(values)
        return HTMLResponse(text, headers=HEADERS)

    # ---- JSON, event files -------------------------------------------------------------------------------------------

    def api_all(self, request: Request) -> Response:
        del request
        return _json({"pipelines": self._summaries(), "wrong_files": self._pages.wrong_files})

    def api_pipeline(self, request: Request) -> Response:
        page = self._page(request)
        return _missing() if page is None else _json(status(page, self._about(page)))

    def api_windows(self, request: Request) -> Response:
        page = self._page(request)
        return _missing() if page is None else _json(windows_of(page, _key(request)))

    def api_keys(self, request: Request) -> Response:
        """Known keys that contain the text `part`, for the completion of the search."""
        page = self._page(request)
        part = request.query_params.get("part", "")[:MAX_KEY]
        return _missing() if page is None else _json({"keys": page.keys(part)})

    def api_records(self, request: Request) -> Response:
        page = self._page(request)
        return _missing() if page is None else _json(page.records().value or {})

    def events(self, request: Request) -> Response:
        """The last records of a stream as a file for `sluice replay`."""
        page = self._page(request)
        records = {} if page is None else page.records().value or {}
        records_of = records.get(request.path_params["stream"])
        if records_of is None:
            return _missing()
        return Response(event_file(records_of), media_type="application/x-ndjson", headers=HEADERS)

    def _page(self, request: Request) -> PipelinePage | None:
        return self._pages.get(request.path_params["name"])


def _key(request: Request) -> str | None:
    return request.query_params.get("key", "")[:MAX_KEY] or None


def _code(text: str) -> Markup:
    """The text as HTML; what stands between backticks is code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(text.split("`"))
    )


def _lines(records: list[dict[str, Any]]) -> str:
    return event_file(records).decode()


def _json(content: Status) -> Response:
    return JSONResponse(content, headers=HEADERS)


def _missing() -> Response:
    return PlainTextResponse("not found\n", 404, headers=HEADERS)
