"""Public sets are read from local copies or downloads, and what is no such set is refused with what to do."""

import hashlib
import http.server
import socket
import struct
import threading

import numpy as np
import pytest
from sklearn.utils import Bunch

from reproduce.subquantile import uci
from reproduce.subquantile.uci import SETS, load_uci


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match=r"name must be one of .* Did you mean 'concrete'"):
        load_uci("concret")


def test_local_copies_are_read(tmp_path):
    (tmp_path / "heart_cleveland.csv").write_text("age,ca,num\n60,1,0\n50,,2\n40,3,1\n")
    table = load_uci("heart_cleveland", tmp_path)
    np.testing.assert_array_equal(table.X, [[60, 1], [50, 2], [40, 3]])
    np.testing.assert_array_equal(table.y, [0, 1, 1])
    np.savez(tmp_path / "drug_qsar.npz", X_train=np.ones((3, 2)), y_train=np.arange(3.0), X_test=np.zeros((1, 2)),
             y_test=np.array([9.0]))
    drug = load_uci("drug_qsar", tmp_path)
    assert (drug.X.shape, drug.n_train, drug.y[-1]) == ((4, 2), 3, 9.0)
    with pytest.raises(FileNotFoundError, match=r"There is no concrete.csv in .* Put it there"):
        load_uci("concrete", tmp_path)
    with pytest.raises(ValueError, match=r"drug_qsar cannot be downloaded: give data_dir"):
        load_uci("drug_qsar")


@pytest.fixture
def served(monkeypatch):
    """A server on this machine in place of UCI: put bytes into the dict it returns."""
    page = {}

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if "body" in page else 404)
            self.end_headers()
            self.wfile.write(page.get("body", b""))

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(uci, "CLEVELAND", f"http://127.0.0.1:{server.server_port}/heart")
    yield page
    server.shutdown()
    server.server_close()


def test_a_download_is_read_and_must_be_the_set(served, monkeypatch):
    served["body"] = b"60.0,1.0,0\n50.0,?,2\n40.0,3.0,1\n"
    with pytest.raises(ValueError, match=r"did not return the expected data set .* heart_cleveland.csv"):
        load_uci("heart_cleveland")
    text = b"(3, 3)" + struct.pack("<9d", 60, 1, 0, 50, -1, 2, 40, 3, 1)
    monkeypatch.setattr(uci, "CLEVELAND_SHA256", hashlib.sha256(text).hexdigest())
    np.testing.assert_array_equal(load_uci("heart_cleveland").X, [[60, 1], [50, 2], [40, 3]])
    assert load_uci("heart_cleveland").y.tolist() == [0, 1, 1]
    served["body"] = b"<html>\xff moved</html>"
    with pytest.raises(ValueError, match="did not return the expected data set"):
        load_uci("heart_cleveland")


def test_openml_tables_put_the_target_last(monkeypatch):
    bunch = Bunch(data=np.array([[1.0, 2.0], [3.0, 4.0]]), target=np.array(["5", "6"]))
    monkeypatch.setattr(uci.datasets, "fetch_openml", lambda **options: bunch)
    table = load_uci("wine_quality_red")
    np.testing.assert_array_equal(table.X, bunch.data)
    np.testing.assert_array_equal(table.y, [5, 6])


@pytest.mark.filterwarnings("ignore:A network error occurred")
def test_without_a_network_the_error_says_what_to_do(served, monkeypatch):
    def refuse(*_, **__):
        raise OSError("Network is unreachable")

    before = socket.getdefaulttimeout()
    with pytest.raises(OSError, match=r"heart_cleveland could not be downloaded .*404.* copy named heart"):
        load_uci("heart_cleveland")
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("heart_cleveland", "concrete"):
        with pytest.raises(OSError, match=rf"{name} could not be downloaded .* copy named {name}.csv"):
            load_uci(name)
    assert socket.getdefaulttimeout() == before


def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(uci, "CLEVELAND", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        monkeypatch.setattr(uci, "SILENCE", 0.2)
        with pytest.raises(OSError, match=r"could not be downloaded .*timed out"):
            load_uci("heart_cleveland")


def test_every_set_has_a_reader():
    assert {source.file.split(".")[-1] for source in SETS.values()} <= {"csv", "npz", "bundled with scikit-learn"}
    assert load_uci("breast_cancer_wisconsin").X.shape == (569, 30)
