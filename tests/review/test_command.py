"""buttress review and result.review(): served on this machine, killed and gone on with, corrections for apply."""

import os
import re
import signal
import socket
import subprocess
import sys
from threading import Timer

import numpy as np
import pytest

import buttress
from buttress import cli
from buttress.audit.reading.corrections import apply_corrections, read_corrections

from review_cases import audited

pytest.importorskip("starlette", reason="the extra review is not installed")
pytest.importorskip("uvicorn", reason="the extra review is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")


@pytest.fixture(autouse=True)
def listens_to_ctrl_c():
    """Where a shell runs the tests in the background, they and the processes they start would not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def command(*arguments):
    return [sys.executable, "-m", "buttress.cli", "review", *map(str, arguments)]


def started(data):
    process = subprocess.Popen(command(data, "--target", "y", "--no-browser", "--who", "ann"), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    return process, re.fullmatch(r"Review: (http://127\.0\.0\.1:\d+/[\w-]{32}/)\n", line)[1]


def test_a_review_that_is_killed_goes_on_and_the_data_are_not_changed(tmp_path):
    data = tmp_path / "data.csv"
    audited()[1].to_csv(data, index=False)
    before = data.read_bytes()
    process, address = started(data)
    page = httpx.get(address).text
    place = re.search(r'name="place" value="(\d+)"', page)[1]
    sent = httpx.post(address + "decide", data={"place": place, "seen": 0, "action": "drop", "why": "a copy"})
    assert sent.status_code == 303
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process, again = started(data)
    try:
        assert again != address
        fixes = tmp_path / "corrections.csv"
        fixes.write_text(httpx.get(again + "corrections.csv").text)
        assert re.search(r'name="place" value="(\d+)"', httpx.get(again).text)[1] != place
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "The review ended" in out
    done = apply_corrections(read_corrections(fixes), data, tmp_path / "clean.csv")
    assert (done.corrected, done.dropped, done.refused) == (0, 1, [])
    assert data.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["clean.csv", "corrections.csv", "data.csv", "data.csv.review"]


@pytest.mark.parametrize(("arguments", "said"), [
    (["nothing.csv", "--target", "y"], "There is no file"),
    (["{data}", "--target", "z"], "no column 'z'"),
    (["{data}", "--target", "y", "--port", "{taken}"], "Use 0 for a free one"),
    (["{data}", "--target", "y", "--decisions", "/nowhere/at/all"], "--decisions")])
def test_what_cannot_be_reviewed_is_one_line(tmp_path, monkeypatch, capsys, arguments, said):
    data = tmp_path / "data.csv"
    audited()[1].to_csv(data, index=False)
    monkeypatch.setattr("buttress.audit.call.audit_table", None)  # all is refused before the audit
    with socket.create_server(("127.0.0.1", 0)) as other:
        given = {"data": data, "taken": other.getsockname()[1]}
        monkeypatch.setattr(sys, "argv", ["buttress", "review", *(text.format(**given) for text in arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
    shown = capsys.readouterr().err
    assert (stop.value.code, shown.count("\n")) == (2, 1)
    assert said in shown


def test_a_review_from_python(tmp_path):
    result, frame, true, wrong = audited()
    with pytest.raises(ValueError, match="there is no such folder"):
        result.review(tmp_path / "nowhere" / "decisions")
    served = result.review(tmp_path / "decisions", who="bob")
    try:
        assert f'href="{served.address}"' in served._repr_html_()
        place = int(np.flatnonzero(wrong)[0])
        httpx.post(served.address + "decide", data={"place": place, "seen": 0, "action": "correct",
                                                     "value": true[place]})
        decisions = served.decisions
        assert type(decisions) is type(frame)
        assert decisions[["who", "row", "action", "value"]].to_numpy().tolist() == [
            ["bob", str(place), "correct", true[place]]]
        assert true[place] in served.corrections(tmp_path / "fixes.csv").read_text()
    finally:
        served.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(served.address)


def test_ctrl_c_while_waiting_leaves_a_server_that_can_be_stopped(tmp_path):
    served = audited()[0].review(tmp_path / "decisions", who="bob")
    Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        served.wait()
    assert served._thread.is_alive()
    assert httpx.get(served.address).status_code == 200
    served.stop()
    assert not served._thread.is_alive()


def test_decisions_on_other_data_are_refused(tmp_path):
    result, frame, *_ = audited()
    result.review(tmp_path / "decisions").stop()
    other = buttress.audit(None, frame.drop(columns="y")[:100], frame["y"][:100], effort="quick", target_name="y")
    with pytest.raises(ValueError, match="another table"):
        other.review(tmp_path / "decisions")
