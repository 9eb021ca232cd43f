"""Corruption does what its kind says to the rows it says; generators and loaders return what they promise."""

import hashlib
import http.server
import socket
import struct
import threading

import numpy as np
import pytest
from sklearn.utils import Bunch

from buttress.datasets import CORRUPTIONS, SETS, contaminate, load_uci, make_polynomial, make_smooth, uci

from problems import points


def problem(n=200):
    X = points(n, 3)
    return X, 2 + 3 * X[:, 0] + 0.1 * points(n, 1, seed=1)[:, 0]


@pytest.mark.parametrize("kind", CORRUPTIONS)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_only_the_named_rows_change_and_a_seed_repeats(kind, rate):
    X, y = problem()
    y = np.where(y > 2, "high", "low") if kind == "flip" else y
    X0, y0 = X.copy(), y.copy()
    X1, y1, mask = contaminate(X, y, rate, kind, random_state=3)
    assert mask.sum() == round(rate * 200)
    np.testing.assert_array_equal(y1[~mask], y0[~mask])
    np.testing.assert_array_equal(X1[~mask], X0[~mask])
    assert np.all(y1[mask] != y0[mask])
    np.testing.assert_array_equal(X, X0)  # what was given is left alone
    np.testing.assert_array_equal(y, y0)
    X2, y2, again = contaminate(X, y, rate, kind, random_state=3)
    np.testing.assert_array_equal(mask, again)
    np.testing.assert_array_equal(y1, y2)
    np.testing.assert_array_equal(X1, X2)


def corrupted(kind, rate=0.4, n=4000):
    """The target before and after on the corrupted rows, with the moments of y."""
    X, y = problem(n)
    _, dirty, mask = contaminate(X, y, rate, kind, random_state=0)
    return y[mask], dirty[mask], y.mean(), y.std(), np.median(y)


def test_noise_is_centred_five_deviations_off_and_five_wide():
    _, after, mean, std, _ = corrupted("noise")
    z = (after - mean) / std
    assert z.mean() == pytest.approx(5, abs=0.5)
    assert z.std() == pytest.approx(5, abs=0.5)


def test_each_regression_corruption_is_what_its_name_says():
    before, after, _, _, median = corrupted("mirrored")
    np.testing.assert_allclose(after - median, median - before)
    before, after, _, std, _ = corrupted("shifted")
    np.testing.assert_allclose(after - before, 2 * std)
    _, after, mean, std, _ = corrupted("constant")
    np.testing.assert_allclose(after, mean + 3 * std)
    before, after, *_ = corrupted("permuted")
    np.testing.assert_allclose(np.sort(after), np.sort(before))
    before, after, *_ = corrupted("oblivious")
    assert (after - before).std() == pytest.approx(5, abs=0.4)
    before, after, _, std, _ = corrupted("heavy_tails")
    assert np.median(np.abs(after - before)) == pytest.approx(std, rel=0.1)  # of a Cauchy, 1


def test_one_region_is_a_ball():
    X, y = problem()
    _, _, mask = contaminate(X, y, 0.2, "one_region", random_state=0)
    Z = X / X.std(axis=0)
    distances = ((Z[:, None] - Z[mask][None]) ** 2).sum(axis=2)
    assert np.any(distances[mask].max(axis=0) <= distances[~mask].min(axis=0))  # around one of its own rows


def test_the_second_function_is_linear_in_the_features():
    X, y = problem()
    _, dirty, mask = contaminate(X, y, 0.4, "second_function", random_state=0)
    A = np.column_stack([np.ones(mask.sum()), X[mask]])
    coef, *_ = np.linalg.lstsq(A, dirty[mask], rcond=None)
    np.testing.assert_allclose(A @ coef, dirty[mask], atol=1e-10)
    assert not np.allclose(np.column_stack([np.ones(len(X)), X]) @ coef, y, atol=1.0)


def test_label_and_feature_corruption_of_numbers_and_of_classes():
    X, y = problem()
    far, dirty, mask = contaminate(X, y, 0.2, "label+feature", random_state=0)
    np.testing.assert_allclose(far[mask], 100 * X[mask])
    np.testing.assert_allclose(dirty[mask], 10_000 * y[mask])
    far, flipped, mask = contaminate(X, y > 2, 0.2, "label+feature", random_state=0)
    np.testing.assert_allclose(far[mask], 100 * X[mask])
    np.testing.assert_array_equal(flipped, (y > 2) ^ mask)


def test_bad_arguments_are_named():
    X, y = problem()
    with pytest.raises(ValueError, match=r"kind must be one of .* Did you mean 'mirrored'"):
        contaminate(X, y, 0.2, "mirror")
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\)"):
        contaminate(X, y, 1.0, "noise")
    with pytest.raises(ValueError, match="at least 2 classes"):
        contaminate(X, np.zeros(200, dtype=int), 0.2, "flip")
    with pytest.raises(ValueError, match=r"needs a target of numbers.*Use kind='flip'"):
        contaminate(X, np.full(200, "red"), 0.2, "shifted")
    with pytest.raises(ValueError, match=r"name must be one of .* Did you mean 'concrete'"):
        load_uci("concret")


def test_the_polynomial_set_is_a_cubic_with_small_noise():
    X, y, truth = make_polynomial(random_state=1)
    assert X.shape == (1000, 1)
    coef = np.polynomial.polynomial.polyfit(X[:, 0], truth, 3)
    np.testing.assert_allclose(np.polynomial.polynomial.polyval(X[:, 0], coef), truth, atol=1e-9)
    assert (y - truth).std() == pytest.approx(0.01, rel=0.1)


def test_the_smooth_set_is_of_size_one_and_has_the_noise_asked_for():
    values = [make_smooth(2000, noise=0.3, random_state=seed) for seed in range(40)]
    assert np.mean([np.mean(truth**2) for _, _, truth in values]) == pytest.approx(1, rel=0.2)
    for _, y, truth in values:
        assert (y - truth).std() == pytest.approx(0.3, rel=0.1)


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


def test_a_target_missing_is_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        contaminate(np.zeros((40, 2)), np.arange(39.0), 0.2, "noise")
