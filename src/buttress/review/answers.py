"""What each page of a review shows and does, whatever serves it; the last one audits the corrected table again."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import jinja2
import numpy as np
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from buttress.audit.call import audit_table
from buttress.audit.data import AuditData
from buttress.audit.measuring.cells import number
from buttress.audit.options import Effort, Options
from buttress.audit.reading.entries import as_array
from buttress.audit.reading.table import make_table
from buttress.review.course import PAGE, Filter, Review, written
from buttress.review.store import Action, RefusedError


def compared(review: Review) -> list[tuple[str, str, str]]:
    """Audit the table with the decisions of a review at little effort; return what was measured, before and after.

    Raises ValueError for a table that cannot be audited.
    """
    table = review.table
    target = table.target.copy()
    kept = np.ones(len(target), dtype=bool)
    for key, one in list(review.store.current.items()):
        place = review.place_of[key]
        kept[place] = one.action is not Action.drop
        if one.action is Action.correct:
            target[place] = review.target_after(place, one)
    audited = []
    for y, rows in ((table.target, np.ones(len(target), dtype=bool)), (target, kept)):
        columns = {name: as_array(column)[table.places][rows] for name, column in table.given.items()}
        made = make_table(columns, y[rows], table.target_name, review.result.task)
        audited.append(audit_table(None, made, Options(task=made.task, effort=Effort.quick), None, 0.0))
    return _lines(*audited)


def _lines(before: AuditData, after: AuditData) -> list[tuple[str, str, str]]:
    def said(found: AuditData) -> list[str]:
        looks = found.suspicion
        name = found.recommended or found.baseline
        share = f"{looks.share:.1%} ({looks.share_low:.1%} to {looks.share_high:.1%})"
        score = found.rows[name]["as_is"].text().replace("\n", " ")
        return [str(looks.rows), share, str(looks.above_half), str(len(found.findings)), name, score]

    names = ["rows", "targets estimated wrong", "rows more likely wrong than right", "findings",
             "model to use", f"its {'accuracy' if after.task == 'classification' else 'RMSE'} on held-out rows"]
    return list(zip(names, said(before), said(after), strict=True))


HERE = Path(__file__).parent / "pages"
FILES = {"keys.js": "text/javascript", "style.css": "text/css"}
Form = Mapping[str, list[str]]


class Pages:
    """What is answered to each request, whose ``state.form`` are the fields of its form."""

    def __init__(self, review: Review, token: str):
        self.review = review
        self.root = f"/{token}"
        self.environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
                                              lstrip_blocks=True, loader=jinja2.FileSystemLoader(HERE))
        self.environment.filters["entry"] = entry

    def _page(self, name: str, seen: int, status: int = 200, **said: object) -> Response:
        """Return a page; ``seen`` is the last decision before what it shows was looked up."""
        store = self.review.store
        last = max(store.current.values(), key=lambda one: one.id, default=None)
        page = self.environment.get_template(f"{name}.html.jinja")
        return HTMLResponse(page.render(root=self.root, review=self.review, seen=seen, last=last,
                                        left=self.review.left(), **said), status)

    def next(self, asked: Request) -> Response:
        """Go to the row that is next."""
        place = self.review.next()
        return self._page("done", self.review.store.last) if place is None else self._row(place)

    def row(self, asked: Request) -> Response:
        """Show one row."""
        place = int(asked.path_params["place"])
        if not 0 <= place < len(self.review.keys):
            return PlainTextResponse(f"There is no row {place} here.", 404)
        self.review.store.read()
        return self._row(place)

    def _row(self, place: int, refused: str = "", status: int = 200) -> Response:
        return self._page("row", self.review.store.last, status, shown=self.review.shown(place), refused=refused)

    def rows(self, asked: Request) -> Response:
        """Show a page of the table."""
        self.review.store.read()
        return self._rows(Filter(**{name: asked.query_params.get(name, default)
                                    for name, default in vars(Filter()).items()}),
                          asked.query_params.get("page", "1"))

    def _rows(self, wanted: Filter, page: str, refused: str = "", status: int = 200) -> Response:
        seen = self.review.store.last
        places = self.review.chosen(wanted)
        pages = max(1, -(-len(places) // PAGE))
        current = min(max(int(page) if page.isdecimal() and len(page) < 10 else 1, 1), pages)
        part = [self.review.shown(int(place)) for place in places[(current - 1) * PAGE : current * PAGE]]
        return self._page("rows", seen, status, rows=part, count=len(places), wanted=wanted, page=current, pages=pages,
                          refused=refused, query=urlencode(vars(wanted)))

    def decide(self, asked: Request) -> Response:
        """Record a decision on the rows of a form, and go on; where it was refused say why."""
        form = asked.state.form
        places = [int(text) for text in form.get("place", []) if text.isdecimal() and len(text) < 10]
        places = [place for place in places if place < len(self.review.keys)]
        wanted = Filter(**{name: _one(form, name, default) for name, default in vars(Filter()).items()})
        bulk = _one(form, "bulk")
        try:
            action = _one(form, "action")
            as_expected = action == "expected"  # each row of a table is corrected to what is expected of it
            if not as_expected and action not in set(Action) - {Action.undo}:
                raise RefusedError(f"A decision is keep, correct, drop or unsure. Got {action!r}.")
            self.review.decide(places, Action.correct if as_expected else Action(action),
                               None if as_expected else _one(form, "value"), _one(form, "why"),
                               int(_one(form, "seen", "0")))
        except (ValueError, OverflowError) as error:
            self.review.store.read()
            if bulk or not places:
                return self._rows(wanted, _one(form, "page", "1"), str(error), 409)
            return self._row(places[0], str(error), 409)
        back = f"{self.root}/rows?{urlencode({**vars(wanted), 'page': _one(form, 'page', '1')})}"
        return RedirectResponse(back if bulk else f"{self.root}/", 303)

    def undo(self, asked: Request) -> Response:
        """Take a decision back and show its row again."""
        try:
            taken = self.review.undo(int(_one(asked.state.form, "decision", "0")))
        except ValueError as error:
            return self._rows(Filter(), "1", str(error), 409)
        return RedirectResponse(f"{self.root}/row/{self.review.place_of[taken.key]}", 303)

    def corrections(self, asked: Request) -> Response:
        """Give the decisions as the file that ``buttress apply`` reads."""
        named = {"Content-Disposition": 'attachment; filename="corrections.csv"'}
        return Response(self.review.corrections(), 200, named, "text/csv")

    def again(self, asked: Request) -> Response:
        """Audit the corrected table, and show both."""
        refused, lines = "", []
        try:
            lines = compared(self.review)
        except ValueError as error:
            refused = str(error)
        return self._page("again", self.review.store.last, lines=lines, refused=refused)

    def file(self, asked: Request) -> Response:
        """Give the script or the style sheet."""
        name = asked.path_params["name"]
        if name not in FILES:
            return PlainTextResponse("Not found.", 404)
        return Response((HERE / name).read_text(encoding="utf-8"), media_type=FILES[name])


def _one(form: Form, name: str, default: str = "") -> str:
    return form.get(name, [default])[0]


def entry(value: object) -> str:
    """Return an entry of the data as text: what is missing as a dash, a number with four digits."""
    if value is None or value != value:
        return "–"
    return number(value) if isinstance(value, float) else written(value)
