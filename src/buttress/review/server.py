"""The pages of a review, on this machine alone: Starlette routes behind a secret token, no request to anywhere else."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from buttress.audit.measuring.cells import number
from buttress.review.again import Compared, compared
from buttress.review.course import PAGE, Filter, Review, written
from buttress.review.store import Action, RefusedError

HERE = Path(__file__).parent
FILES = {"keys.js": "text/javascript", "style.css": "text/css"}
MOST_BYTES = 1_000_000  # of a form
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
                               "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Form = Mapping[str, list[str]]
Answer = Callable[[Request], Awaitable[Response]]


def application(review: Review, token: str, hosts: frozenset[str]) -> Starlette:
    """Return the application; requests for other ``hosts`` (with their port) and without the token are refused."""
    pages = Pages(review, token)

    def guarded(answer: Callable[[Request, Form], Response]) -> Answer:
        async def guarded_answer(request: Request) -> Response:
            refused = _refused(request, token, hosts)
            response = refused or await run_in_threadpool(answer, request, await _form(request))
            response.headers.update(HEADERS)
            return response

        return guarded_answer

    get = {"/": pages.next, "/row/{place:int}": pages.row, "/rows": pages.rows, "/corrections.csv": pages.corrections,
           "/again": pages.again, "/file/{name}": pages.file}
    post = {"/decide": pages.decide, "/undo": pages.undo}
    routes = [Route("/{token}" + path, guarded(answer), methods=[method])
              for method, answers in (("GET", get), ("POST", post)) for path, answer in answers.items()]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # it would answer before the address is checked
    return app


def _refused(request: Request, token: str, hosts: frozenset[str]) -> Response | None:
    """Return the answer to a request that is not from the person's own browser and page, None for one that is."""
    import hmac

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
        if len(body) > MOST_BYTES:
            return {}
    return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)


class Pages:
    """What is answered to each request."""

    def __init__(self, review: Review, token: str):
        self.review = review
        self.root = f"/{token}"
        self.environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
                                              lstrip_blocks=True, loader=jinja2.FileSystemLoader(HERE / "pages"))
        self.environment.filters["entry"] = entry

    def _page(self, name: str, status: int = 200, **said: object) -> HTMLResponse:
        store = self.review.store
        last = max(store.current.values(), key=lambda one: one.id, default=None)
        page = self.environment.get_template(f"{name}.html.jinja")
        return HTMLResponse(page.render(root=self.root, review=self.review, seen=store.last, last=last,
                                        left=self.review.left(), **said), status)

    def next(self, request: Request, form: Form) -> Response:
        """Go to the row that is next."""
        place = self.review.next()
        return self._page("done") if place is None else self._row(place)

    def row(self, request: Request, form: Form) -> Response:
        """Show one row."""
        place = request.path_params["place"]
        if not 0 <= place < len(self.review.keys):
            return PlainTextResponse(f"There is no row {place} here.", 404)
        self.review.store.read()
        return self._row(place)

    def _row(self, place: int, refused: str = "", status: int = 200) -> Response:
        return self._page("row", status, shown=self.review.shown(place), refused=refused)

    def rows(self, request: Request, form: Form) -> Response:
        """Show a page of the table."""
        self.review.store.read()
        return self._rows(Filter(**{name: request.query_params.get(name, default)
                                    for name, default in vars(Filter()).items()}),
                          request.query_params.get("page", "1"))

    def _rows(self, wanted: Filter, page: str, refused: str = "", status: int = 200) -> Response:
        places = self.review.chosen(wanted)
        pages = max(1, -(-len(places) // PAGE))
        current = min(max(int(page) if page.isdecimal() and len(page) < 10 else 1, 1), pages)
        part = [self.review.shown(int(place)) for place in places[(current - 1) * PAGE : current * PAGE]]
        return self._page("rows", status, rows=part, count=len(places), wanted=wanted, page=current, pages=pages,
                          refused=refused, query=urlencode(vars(wanted)))

    def decide(self, request: Request, form: Form) -> Response:
        """Record a decision on the rows of a form, and go on; where it was refused say why."""
        places = [int(text) for text in form.get("place", []) if text.isdecimal() and len(text) < 10]
        places = [place for place in places if place < len(self.review.keys)]
        wanted = Filter(**{name: _one(form, name, default) for name, default in vars(Filter()).items()})
        bulk = _one(form, "bulk")
        try:
            action = _one(form, "action")
            if action not in set(Action) - {Action.undo}:
                raise RefusedError(f"A decision is keep, correct, drop or unsure. Got {action!r}.")
            self.review.decide(places, Action(action), _one(form, "value"), _one(form, "why"),
                               int(_one(form, "seen", "0")))
        except ValueError as error:
            self.review.store.read()
            if bulk or not places:
                return self._rows(wanted, _one(form, "page", "1"), str(error), 409)
            return self._row(places[0], str(error), 409)
        back = f"{self.root}/rows?{urlencode({**vars(wanted), 'page': _one(form, 'page', '1')})}"
        return RedirectResponse(back if bulk else f"{self.root}/", 303)

    def undo(self, request: Request, form: Form) -> Response:
        """Take a decision back and show its row again."""
        try:
            taken = self.review.undo(int(_one(form, "decision", "0")))
        except ValueError as error:
            return self._rows(Filter(), "1", str(error), 409)
        return RedirectResponse(f"{self.root}/row/{self.review.place_of[taken.key]}", 303)

    def corrections(self, request: Request, form: Form) -> Response:
        """Give the decisions as the file that ``buttress apply`` reads."""
        named = {"Content-Disposition": 'attachment; filename="corrections.csv"'}
        return Response(self.review.corrections(), media_type="text/csv", headers=named)

    def again(self, request: Request, form: Form) -> Response:
        """Audit the corrected table, and show both."""
        found: Compared = compared(self.review)
        return self._page("again", found=found)

    def file(self, request: Request, form: Form) -> Response:
        """Give the script or the style sheet."""
        name = request.path_params["name"]
        if name not in FILES:
            return PlainTextResponse("Not found.", 404)
        return Response((HERE / "pages" / name).read_bytes(), media_type=FILES[name])


def _one(form: Form, name: str, default: str = "") -> str:
    return form.get(name, [default])[0]


def entry(value: object) -> str:
    """Return an entry of the data as text: what is missing as a dash, a number with four digits."""
    if value is None or value != value:
        return "–"
    return number(value) if isinstance(value, float) else written(value)
