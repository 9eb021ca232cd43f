"""What is to be done next, in a sentence: about the worst of the findings, or to train what is recommended."""

from pathlib import Path

from buttress.audit.data import AuditData


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
    return f"Next: buttress train {_quoted(source)} --target {_quoted(target)} -o model.buttress"


def _quoted(text: object) -> str:
    """Return a word of a command line, in quotation marks where it needs them."""
    plain = str(text).replace(".", "").replace("/", "").replace("_", "").replace("-", "").isalnum()
    return str(text) if plain else f'"{text}"'
