"""A review that is being served: its address, the decisions as a frame, and the end of it."""

import getpass
import secrets
import socket
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

from buttress.audit.data import AuditData, frame
from buttress.files.disk import check_file
from buttress.review.course import Review

LOCAL = "127.0.0.1"


def check_installed() -> None:
    """Raise ImportError where the extra is missing."""
    if not all(find_spec(name) for name in ("starlette", "uvicorn", "jinja2")):
        raise ImportError("A review needs starlette, uvicorn and jinja2. Install them with: "
                          "pip install 'buttress[review]'")


def listening(port: int) -> socket.socket:
    """Return a socket that listens on this machine, at a free port for 0; ValueError for a port that is not to be had.
    """
    try:
        return socket.create_server((LOCAL, port))
    except OSError as error:
        raise ValueError(f"port {port} cannot be had: {error.strerror}. Use 0 for a free one.") from None


class Reviewing:
    """A review that is served until :meth:`stop`, or until Python ends. Decisions are kept as they are made.

    Attributes
    ----------
    address : str
        What to open in a browser on this machine; whoever has it can decide.
    path : Path
        The file of the decisions.
    """

    def __init__(self, review: Review, port: int):
        check_installed()
        import uvicorn

        from buttress.review.server import application

        self.review = review
        self.path = review.store.path
        token = secrets.token_urlsafe(24)
        self._socket = listening(port)
        port = self._socket.getsockname()[1]
        self.address = f"http://{LOCAL}:{port}/{token}/"
        hosts = frozenset(f"{name}:{port}" for name in (LOCAL, "localhost"))
        config = uvicorn.Config(application(review, token, hosts), log_level="error", access_log=False,
                                server_header=False)
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    @property
    def decisions(self) -> Any:
        """All decisions, those taken back too, as a frame like the user's: id, at, who, key, row, action, ..."""
        self.review.store.read()
        names = ["id", "at", "who", "key", "row", "action", "value", "why", "undoes"]
        columns = {name: [getattr(one, name) for one in self.review.store.history] for name in names}
        columns["action"] = [str(action) for action in columns["action"]]
        return frame(columns, str(self.review.result.data["source"]))

    def corrections(self, path: str | Path) -> Path:
        """Write the decisions as the file that ``buttress apply`` reads, and return its path."""
        Path(path).write_text(self.review.corrections(), encoding="utf-8")
        return Path(path)

    def wait(self) -> None:
        """Wait until the server ends, as by Ctrl-C."""
        while self._thread.is_alive():
            sleep(0.2)  # in Python 3.11 Ctrl-C in a join counts the thread as ended, and the server is cut off

    def stop(self) -> None:
        """End the server and close the file of the decisions."""
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()
        self.review.close()

    def __repr__(self) -> str:
        """Return the address."""
        return f"<Reviewing at {self.address}; decisions in {self.path}>"

    def _repr_html_(self) -> str:
        """Return a link, for a notebook."""
        return f'<a href="{self.address}" target="_blank" rel="noopener">Review the rows</a>'


def review(result: AuditData, decisions: str | Path | None = None, who: str | None = None, port: int = 0) -> Reviewing:
    """Serve a review of an audit; see :meth:`buttress.audit.AuditResult.review`."""
    path = Path(decisions) if decisions is not None else decisions_beside(result)
    check_file(path, "decisions")
    return Reviewing(Review(result, path, who or getpass.getuser()), port)


def decisions_beside(result: AuditData) -> Path:
    """Return the file of decisions beside the data, or in the current folder for data that were no file."""
    source = Path(str(result.data["source"]))
    return source.with_name(f"{source.name}.review") if source.is_file() else Path("decisions.review")
