"""Writing an audit down: ``audit.json`` for programs, ``audit.html`` for people, and a table for the terminal."""

import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from buttress.audit.result import AuditResult

TEMPLATE = Path(__file__).with_name("report.html.jinja")


def write(result: AuditResult, folder: Path) -> list[Path]:
    """Write audit.json and audit.html into ``folder`` (made if need be); both or neither appear, and never in part."""
    texts = {"audit.json": json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n", "audit.html": html(result)}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".audit-") as scratch:
        for name, text in texts.items():
            (Path(scratch) / name).write_text(text, encoding="utf-8")
        for name in texts:
            os.replace(Path(scratch) / name, folder / name)
    return [folder / name for name in texts]


def html(result: AuditResult) -> str:
    """Return the report as one HTML page that needs nothing else."""
    try:
        import jinja2
    except ImportError:
        raise ImportError("The HTML report needs jinja2. Install it with: pip install 'buttress[report]'") from None
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    best = {key: _best(result, key) for key in result.columns}
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return page.render(result=result, svg=_svg(result), best=best)


def _best(result: AuditResult, key: str) -> float | None:
    values = [cell.value for cells in result.rows.values() if (cell := cells[key]).value is not None]
    return (max(values) if result.metric == "accuracy" else min(values)) if values else None


def _svg(result: AuditResult) -> str:
    buffer = io.StringIO()
    result.plot().savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg"):]


def terminal_table(result: AuditResult) -> Any:
    """Return the result as a rich renderable."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = f"{result.data['source']}: {result.task} of {result.data['target']!r}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("estimator", overflow="fold", min_width=15)
    for key in result.columns:
        table.add_column(key.replace("_", "\n"), justify="right")
    for name, cells in result.rows.items():
        style = "bold" if name == result.recommended else ""
        table.add_row(Text(name), *(cells[key].text() for key in result.columns), style=style)
    rows = Table(title="Most suspicious training rows", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("row", "given", "expected", "why"):
        rows.add_column(heading)
    for found in result.suspicious[:5]:
        rows.add_row(*(Text(_short(found[key])) for key in ("row", "given", "expected", "why")))
    lines = [f"{key}: {says}" for key, says in result.columns.items()]
    lines += [*result.notes, *(f"Within the budget: {what}." for what in result.subsampled.values())]
    lines.append(f"Recommended: {result.recommended}. {result.seconds:.0f} s.")
    return Group(table, Text("\n".join(lines)), rows)


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
