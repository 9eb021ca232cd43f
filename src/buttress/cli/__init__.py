"""The ``buttress`` command: parse, call, print. Errors are one line on stderr and exit code 2."""

import sys
import warnings

import typer

# the commands join the application as they are imported
from buttress.cli import audit, evidence, models, review
from buttress.cli.terminal import app, complain, stop

__all__ = ["app", "audit", "evidence", "main", "models", "review"]


def main() -> None:
    """Run the command; mistakes of the user become one line and exit code 2, Ctrl-C exit code 130."""
    warnings.showwarning = lambda message, *_: complain(str(message))
    try:
        code = app(standalone_mode=False)
    except (ValueError, TypeError, ImportError, OSError) as error:
        stop(str(error), 2)
    except Exception as error:
        if not hasattr(error, "format_message"):  # not the command line's own complaint about its arguments
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # help, in lines, as was asked for
            typer.echo(error.format_message())
            sys.exit(0)
        stop(error.format_message(), 2)
    sys.exit(code if isinstance(code, int) else 0)
