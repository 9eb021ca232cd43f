"""Serving a review on this machine alone: Starlette routes behind a secret token, no request to anywhere else."""

import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from buttress.review.answers import Form, Pages
from buttress.review.course import Review

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
                               "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def application(review: Review, token: str, hosts: frozenset[str]) -> Starlette:
    """Return the application; requests for other ``hosts`` (with their port) and without the token are refused."""
    def guarded(answer: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            said = _refused(request, token, hosts)
            if said is None:
                request.state.form = await _form(request)
                said = await run_in_threadpool(answer, request)
            said.headers.update(HEADERS)
            return said

        return respond

    pages = Pages(review, token)
    get = {"/": pages.next, "/row/{place:int}": pages.row, "/rows": pages.rows, "/corrections.csv": pages.corrections,
           "/again": pages.again, "/file/{name}": pages.file}
    post = {"/decide": pages.decide, "/undo": pages.undo}
    routes = [Route("/{token}" + path, guarded(answer), methods=[method])
              for method, answers in (("GET", get), ("POST", post)) for path, answer in answers.items()]
    made = Starlette(routes=routes)
    made.router.redirect_slashes = False  # it would answer before the address is checked
    return made


def _refused(request: Request, token: str, hosts: frozenset[str]) -> Response | None:
    """Return the answer to a request that is not from the person's own browser and page, None for one that is."""
    if request.headers.get("host", "") not in hosts:  # a name that somebody else's server points to this machine
        return PlainTextResponse("This page answers to its own address only.", 421)
    if not hmac.compare_digest(request.path_params["token"].encode(), token.encode()):
        return PlainTextResponse("Not found. Use the whole address that was printed.", 404)
    origin = request.headers.get("origin")
    if request.method == "POST" and origin is not None and origin not in {f"http://{host}" for host in hosts}:
        return PlainTextResponse("Another page may not decide.", 403)
    return None


async def _form(request: Request) -> Form:
    """Return the fields of a form, none of a request without one; what is beyond a megabyte is not read."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > 1_000_000:  # bytes of a form
            return {}
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
