"""The six data sets of table 4 from local copies (or OpenML), and some lossless rows: pixels in [0, 1], labels 0 and 1.

MNIST is read from the four idx files, CIFAR-10 from the official binary batches (``data_batch_*.bin``,
``test_batch.bin``) or from ``cifar10_auto_truck.npz``. MNIST8M is not distributed any more: its pairs are made from
MNIST images by the same rule, random smooth deformations along the image's tangents and shifts by one pixel.
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from buttress._checks import Array

Pixels = NDArray[np.uint8]
ANIMALS = {"automobile": 1, "truck": 9, "dog": 5, "horse": 7}


@dataclass
class Split:
    """Training and test rows with labels 0 and 1, and where they are from."""

    X: NDArray[Any]
    y: NDArray[np.intp]
    X_test: NDArray[Any]
    y_test: NDArray[np.intp]
    source: str


def read_idx(path: Path) -> NDArray[Any]:
    """Return an idx file (plain or .gz) of bytes as an array."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path.name} is not an idx file of bytes. Give the original MNIST files.")
    sides = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    data = np.frombuffer(raw, np.uint8, offset=4 + 4 * len(sides))
    if data.size != np.prod(sides):
        raise ValueError(f"{path.name} holds {data.size} bytes of data, its header says {np.prod(sides)}. Copy it "
                         "again.")
    return data.reshape(sides[0], -1)


def find(directory: Path, name: str) -> Path | None:
    """Return the file of this name, or with .gz, in the directory or one below it."""
    return next((path for pattern in (name, f"{name}.gz") for path in sorted(directory.glob(f"**/{pattern}"))), None)


def mnist(directory: Path | None) -> tuple[Pixels, Pixels, Pixels, Pixels]:
    """Return MNIST's training images and labels, test images and labels."""
    if directory is None:
        from sklearn.datasets import fetch_openml

        images, labels = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
        images, labels = images.astype(np.uint8), labels.astype(np.uint8)
        return images[:60000], labels[:60000], images[60000:], labels[60000:]
    parts = []
    for name in (f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")):
        path = find(directory, name)
        if path is None:
            raise FileNotFoundError(f"{name} (or {name}.gz) is not in {directory}. Put the four MNIST files there.")
        parts.append(read_idx(path))
    return parts[0], parts[1][:, 0], parts[2], parts[3][:, 0]


def cifar(directory: Path | None, labels: tuple[int, int]) -> tuple[Pixels, Pixels, Pixels, Pixels, str]:
    """Return CIFAR-10's images and labels of two classes: official batches if there, else the pair's npz file."""
    if directory is None:
        from sklearn.datasets import fetch_openml

        images, names = fetch_openml("CIFAR_10", version=1, return_X_y=True, as_frame=False)
        images, names = images.astype(np.uint8), names.astype(np.uint8)
        return images[:50000], names[:50000], images[50000:], names[50000:], "OpenML"
    batches = [find(directory, f"data_batch_{i}.bin") for i in range(1, 6)]
    test = find(directory, "test_batch.bin")
    if test is not None and all(path is not None for path in batches):
        rows = [np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 3073) for path in [*batches, test] if path]
        train = np.concatenate(rows[:5])
        return train[:, 1:], train[:, 0], rows[5][:, 1:], rows[5][:, 0], "official batches"
    pair = find(directory, "cifar10_auto_truck.npz")
    if pair is None or set(labels) != {1, 9}:
        raise FileNotFoundError(f"data_batch_1.bin to data_batch_5.bin and test_batch.bin are not in {directory}. Put "
                                "the binary version of CIFAR-10 there.")
    with np.load(pair) as file:
        return file["x_train"], file["y_train"], file["x_test"], file["y_test"], "CIFAR-10 (JPEG copies)"


def lossless_pair(directory: Path | None, negative: int, positive: int) -> Split:
    """Return the rows of ``cifar10_lossless_subset.npz``, which are bit for bit those of the official batches."""
    path = None if directory is None else find(directory, "cifar10_lossless_subset.npz")
    if path is None:
        raise FileNotFoundError(f"cifar10_lossless_subset.npz is not in {directory}. It holds some rows of the "
                                "official batches; with these files, use the sets of all rows.")
    with np.load(path) as file:
        X, y = pair(file["x_train"], file["y_train"], negative, positive)
        X_test, y_test = pair(file["x_test"], file["y_test"], negative, positive)
    return Split(scaled(X), y, scaled(X_test), y_test, "CIFAR-10, lossless, of some rows")


def deformation_fields(side: int, count: int = 512) -> Array:
    """Return smooth random fields with values in [-1, 1], (count, side, side)."""
    rng = np.random.default_rng(0)
    noise = rng.uniform(-1, 1, (count, side + 16, side + 16))
    fields: Array = gaussian_filter(noise, (0, 4, 4))[:, 8 : 8 + side, 8 : 8 + side]
    return fields / np.abs(fields).max(axis=(1, 2), keepdims=True)


def deformed(images: Pixels, count: int, *, seed: int = 0) -> tuple[Pixels, NDArray[np.intp]]:
    """Return ``count`` deformed copies of square images (n, side^2), and which image each is of.

    x + alpha (F_1 tangent_x - F_2 tangent_y), alpha = +-1.5, F smooth random fields, then a shift by at most one pixel.
    """
    side = round(images.shape[1] ** 0.5)
    fields, rng = deformation_fields(side), np.random.default_rng(seed)
    smooth = images.reshape(-1, side, side) / 255.0
    across, down = (np.gradient(gaussian_filter(smooth, (0, 0.8, 0.8)), axis=axis) for axis in (2, 1))
    base = np.arange(count) % len(images)
    made = np.empty((count, side * side), dtype=np.uint8)
    for start in range(0, count, 4096):
        rows = base[start : start + 4096]
        first, second = fields[rng.integers(len(fields), size=(2, len(rows)))]
        alpha = rng.choice([-1.5, 1.5], size=(len(rows), 1, 1))
        moved = np.clip(smooth[rows] + alpha * (first * across[rows] - second * down[rows]), 0, 1)
        shifts = rng.integers(-1, 2, size=(len(rows), 2))
        padded = np.pad(moved, ((0, 0), (1, 1), (1, 1)))
        index = np.arange(side)
        lines = (1 + index)[None, :, None] - shifts[:, 0, None, None]
        columns = (1 + index)[None, None, :] - shifts[:, 1, None, None]
        shifted = padded[np.arange(len(rows))[:, None, None], lines, columns]
        made[start : start + len(rows)] = np.rint(255 * shifted).reshape(len(rows), -1)
    return made, base


def pair(images: Pixels, labels: Pixels, negative: int, positive: int) -> tuple[Pixels, NDArray[np.intp]]:
    """Return the rows of two labels, and 1 where it is the second."""
    kept = (labels == negative) | (labels == positive)
    return images[kept], (labels[kept] == positive).astype(np.intp)


def scaled(pixels: Pixels) -> NDArray[Any]:
    """Return pixels in [0, 1], in the precision that the attacks are then run in."""
    return pixels / np.float32(255)


def mnist_pair(directory: Path | None, negative: int, positive: int) -> Split:
    train, labels, test, test_labels = mnist(directory)
    X, y = pair(train, labels, negative, positive)
    X_test, y_test = pair(test, test_labels, negative, positive)
    return Split(scaled(X), y, scaled(X_test), y_test, "MNIST")


def cifar_pair(directory: Path | None, negative: int, positive: int) -> Split:
    train, labels, test, test_labels, source = cifar(directory, (negative, positive))
    X, y = pair(train, labels, negative, positive)
    X_test, y_test = pair(test, test_labels, negative, positive)
    return Split(scaled(X), y, scaled(X_test), y_test, source)


def infinite_pair(directory: Path | None, negative: int, positive: int, *, count: int = 200_000) -> Split:
    """Return ``count`` deformed training images of two digits, and MNIST's own test images of them."""
    train, labels, test, test_labels = mnist(directory)
    X, y = pair(train, labels, negative, positive)
    made, base = deformed(X, count)
    X_test, y_test = pair(test, test_labels, negative, positive)
    return Split(scaled(made), y[base], scaled(X_test), y_test, "deformed MNIST")


def digits_pair(negative: int, positive: int) -> Split:
    """Return scikit-learn's 8 x 8 digits, three quarters of them deformed for training: needs no file."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    X, y = pair((images * 255 / 16).astype(np.uint8), labels.astype(np.uint8), negative, positive)
    cut = 3 * len(X) // 4
    made, base = deformed(X[:cut], 600)
    return Split(scaled(made), y[:cut][base], scaled(X[cut:]), y[cut:], "scikit-learn's digits, deformed")


SETS: dict[str, Callable[[Path | None], Split]] = {
    "MNIST 1 vs. 7": lambda directory: mnist_pair(directory, 1, 7),
    "MNIST 8 vs. 9": lambda directory: mnist_pair(directory, 8, 9),
    "CIFAR10 automobile vs. truck": lambda directory: cifar_pair(directory, ANIMALS["automobile"], ANIMALS["truck"]),
    "CIFAR10 automobile vs. truck, lossless":
        lambda directory: lossless_pair(directory, ANIMALS["automobile"], ANIMALS["truck"]),
    "CIFAR10 dog vs. horse": lambda directory: cifar_pair(directory, ANIMALS["dog"], ANIMALS["horse"]),
    "MNIST8M 0 vs. 4": lambda directory: infinite_pair(directory, 0, 4),
    "MNIST8M 6 vs. 8": lambda directory: infinite_pair(directory, 6, 8),
}
