"""Writing an audit down: ``audit.json`` for programs, ``audit.html`` for people, ``suspicious.csv`` for corrections,
and a table for the terminal."""

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from html import escape
from importlib.util import find_spec
from pathlib import Path
from shlex import join
from typing import Any

from buttress.audit.data import SCHEMA, AuditData
from buttress.audit.measuring.cells import number, printable
from buttress.audit.reading.corrections import read_corrections
from buttress.audit.writing.pictures import bands, figures
from buttress.audit.writing.words import (
    FILES,
    GLOSSARY,
    HEADINGS,
    WITHOUT_JINJA,
    family_of,
    in_words,
    term_of_column,
)
from buttress.files.disk import replace_files

TEMPLATE = Path(__file__).with_name("report.html.jinja")
TERMINAL_ROWS = 5  # suspicious rows shown in the terminal; audit.json holds all


def write(result: AuditData, folder: Path) -> list[Path]:
    """Write audit.json, audit.html and suspicious.csv into ``folder`` (made if need be), each whole or not at all.

    Those of an earlier audit go before the first of this one comes, so that files that stand side by side are of one.
    Without jinja2 there is no audit.html. ValueError for files that :func:`check_earlier` refuses.
    """
    check_earlier(folder)
    texts = {"audit.json": json.dumps(result.to_dict(), indent=1, allow_nan=False, default=str) + "\n"}
    if find_spec("jinja2"):
        texts["audit.html"] = html(result)
    writers = {name: partial(Path.write_text, data=text, encoding="utf-8") for name, text in texts.items()}
    return replace_files(folder, {**writers, "suspicious.csv": result.sheet.write}, FILES[::-1])


def check_earlier(folder: Path, own: Sequence[str] = FILES) -> None:
    """Refuse a folder with files that would be lost: called as its ``own``, but of none, or filled in by somebody."""
    lost = next((name for name in own if (folder / name).exists()), None)
    sheet = folder / FILES[-1]
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        if lost and json.loads((folder / FILES[0]).read_bytes())["schema"].startswith(SCHEMA.partition("/")[0]):
            lost = sheet.name
            lost = lost if sheet.exists() and read_corrections(sheet).called else None
    if lost:
        raise ValueError(f"Folder {str(folder)!r} holds {lost!r}, which is not from an earlier audit, or has your "
                         "corrections. The audit would overwrite it. Move it, or name another folder.")


def next_step(result: AuditData) -> str:
    """Return the advice on the worst finding that has one, else the command, or the section, that trains the model."""
    if result.cut:
        return "Next: run it again with a longer --max-time or with --effort quick."
    for finding in result.findings:
        if finding.advice and finding.severity != "note":
            return f"Next: {finding.advice} ({finding.code})"
    if result.recommended is None:
        return "Next: collect more rows."
    source, target = result.data["source"], result.data["target"]
    if not Path(str(source)).suffix:
        return "Next: fit the recommended model, with the code below."
    words = ["buttress", "train", source, "--target", target]
    for column in filter(None, (*result.settings["drop"], result.settings["groups"], result.settings["time"])):
        words += ["--drop", column]  # it was no feature here
    return f"Next: {join(map(str, words))} -o model.buttress"


def html(result: AuditData) -> str:
    """Return the report as one HTML page that needs nothing else."""
    try:
        import jinja2
    except ImportError:
        raise ImportError(WITHOUT_JINJA) from None
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    best = {key: _best(result, key) for key in result.columns}
    environment.filters |= {"entry": _entry, "words": partial(in_words, task=result.task), "term": family_of,
                            "column_term": term_of_column}
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    said = [sentence.partition(": ") for sentence in (*result.verdict, next_step(result))]
    name = Path(str(result.data["source"])).name  # the page is sent to people who do not have the folder
    return page.render(result=result, said=said, name=name, figures=figures(result), bands=bands(result), best=best,
                       limit=60, headings=HEADINGS, glossary=_glossary(result))


def embedded(result: AuditData) -> str:
    """Return the page inside a frame of its own, so that a notebook and it do not share styles."""
    page = escape(html(result), quote=True)
    return f'<iframe title="audit" style="width:100%;height:820px;border:0" srcdoc="{page}"></iframe>'


def _glossary(result: AuditData) -> dict[str, tuple[str, str]]:
    """Return the paragraphs on the terms that this page uses."""
    used = {family_of(name) for name in result.rows} | {term_of_column(key) for key in result.columns}
    return {key: said for key, said in GLOSSARY.items() if key in used | {"interval", "wrong"}}


def _best(result: AuditData, key: str) -> float | None:
    """Return the best value of a column, None where it is no better than the baseline's."""
    values = [cell.value for cells in result.rows.values() if (cell := cells[key]).value is not None]
    higher = result.higher(key)
    best = (max(values) if higher else min(values)) if values else None
    guess = result.rows[result.baseline][key].value
    return best if best is not None and (guess is None or (best > guess if higher else best < guess)) else None


def markdown(result: AuditData) -> str:
    """Return the first screen, the findings and the table as Markdown, for a merge request or a wiki."""
    name = _cell_text(Path(str(result.data["source"])).name)
    lines = [f"# Audit of {name}", ""]
    if result.cut:
        lines += [f"**{result.cut_short()}**", ""]
    lines += [f"- {sentence}" for sentence in (*result.verdict, next_step(result))]
    lines += ["", "## What was found", ""]
    lines += [f"- **{found.severity} {found.code}** {found.title} {found.advice}".rstrip() for found in result.findings]
    heads = ["model", *(HEADINGS[key] for key in result.columns)]
    lines += ["", "## Which model to use", "", _table_row(heads), "|---" * len(heads) + "|"]
    for estimator, cells in result.rows.items():
        mark = "**" * (estimator == result.recommended)
        scores = ["–" if cells[key].value is None else f"{cells[key].number()} ({cells[key].interval()})"
                  for key in result.columns]
        lines.append(_table_row([f"{mark}{_cell_text(in_words(estimator, result.task))}{mark}", *scores]))
    judged = [result.suspicion.says(), *(["", result.labels.says()] if result.labels else [])]
    return "\n".join([*lines, "", *judged]) + "\n"


def _table_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell_text(text: str) -> str:
    """Return a text for a cell of a Markdown table."""
    return printable(text).replace("|", "\\|").replace("\n", " ")


def terminal_table(result: AuditData, width: int = 80) -> Any:
    """Return the result as a rich renderable; intervals are left to the report where the table would be too wide."""
    from rich.console import Console, Group

    fits = Console(width=10_000).measure(_table(result, interval=True)).maximum <= width
    lines = [f"{key}: {result.columns[key]}" for key in terminal_columns(result)]
    lines += [*result.notes, *_newer(result), *(f"{what}: {rows}" for what, rows in result.measured.items())]
    findings = (f"{found.severity:<8}{found.code} {found.title}" for found in result.findings)
    cut = [result.cut_short()] if result.cut else []
    said = [*cut, *result.verdict, next_step(result), *findings, ""]
    if not fits:
        lines.append("Intervals are in the report: the table would be too wide with them.")
    lines.append(f"Recommended: {result.recommended or 'none'}. {result.seconds:.0f} s.")
    judged = [result.suspicion.says(), *([result.labels.says()] if result.labels else [])]
    if result.suspects:
        judged.append("p: the probability that a row is wrong, or unlike any other.")
    if len(result.suspects) > TERMINAL_ROWS:
        judged.append(f"The first {TERMINAL_ROWS}; all are in suspicious.csv.")
    suspicious = [_suspicious(result)] if result.suspects else []
    return Group(_text("\n".join(said)), _table(result, interval=fits), _text("\n".join(lines)), *suspicious,
                 _text("\n".join(judged)))


def _newer(result: AuditData) -> list[str]:
    """Return what the comparison with newer rows came to, nothing where none was asked for."""
    if result.against is None:
        return []
    came = "Nothing speaks against" if result.against["trusted"] else "There is an alarm about"
    return [f"{came} using a model of these rows on the {result.against['rows']} of {result.against['source']}."]


def terminal_columns(result: AuditData) -> list[str]:
    """Return the columns for a terminal, which is narrow: of the scores of one thing that by which models are compared.
    """
    beside = {"balanced", "auc", "log_loss", "mae", "labels_needed"} - {result.settings["metric"].partition("_")[0]}
    return [key for key in result.columns if key not in beside]


def _table(result: AuditData, interval: bool) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = f"{result.data['source']}: {result.task} of {result.data['target']!r}"
    table = Table(title=_text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("estimator", overflow="fold", width=15)
    for key in terminal_columns(result):
        table.add_column(_text(key.replace("_", "\n")), justify="right", overflow="fold")
    for name, cells in result.rows.items():
        style = "bold" if name == result.recommended else ""
        table.add_row(_text(name), *(cells[key].text(interval) for key in terminal_columns(result)), style=style)
    return table


def _suspicious(result: AuditData) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    rows = Table(title="Most suspicious rows", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("row", "given", "expected", "p", "why"):
        rows.add_column(heading, overflow="fold")
    for found in result.suspects[:TERMINAL_ROWS]:
        entries = (found.row, found.given, found.expected, f"{found.probability:.2f}", found.why)
        rows.add_row(*(_text(_entry(entry)) for entry in entries))
    return rows


def _text(words: str) -> Any:
    """Return words as they are: neither markup nor codes of a terminal in them mean anything."""
    from rich.text import Text

    return Text(printable(words))


def _entry(value: object) -> str:
    """Return an entry of the data as text: None as a dash, a number with four digits."""
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else str(value)
