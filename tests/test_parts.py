"""Losses against finite differences and their curvature bounds; risks against brute force."""

import numpy as np
import pytest
from scipy.special import softmax

from buttress.losses import Hinge, Logistic, Multinomial, Squared
from buttress.risks import Mean, PerClass, Subquantile, Tilted

# One row a loss and one a risk: adding one means adding a row here.
SIGNS = np.array([-1.0, 1.0])
LOSSES = [(Hinge(), SIGNS), (Squared(), np.array([-2.0, 0.5, 3.0])), (Logistic(), SIGNS)]
EPS = np.finfo(float).eps  # bounds that are met exactly hold up to a few of these
RISKS = [Mean(), Subquantile(0.3), Subquantile(0.77), Subquantile(1.0), Tilted(-2.0), Tilted(0.0), Tilted(1.5)]
RISKS += [Subquantile(0.6, smoothing=0.1), Subquantile(0.8, smoothing=2.0), Subquantile(1.0, smoothing=0.5)]
RISKS += [PerClass(Subquantile(0.6), np.arange(12) % 3)]


@pytest.mark.parametrize(("loss", "targets"), LOSSES, ids=["hinge", "squared", "logistic"])
def test_derivative_and_curvature_of_scalar_losses(loss, targets):
    y = targets.repeat(41)
    f = np.tile(np.linspace(-5, 5, 41) + 0.003, len(targets))
    h = 1e-5
    slope = (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h)
    np.testing.assert_allclose(slope, loss.derivative(y, f), atol=1e-8)
    second = (loss.derivative(y, f + h) - loss.derivative(y, f - h)) / (2 * h)
    assert second.max() <= loss.curvature * (1 + 1e-6)
    if np.isfinite(loss.curvature):
        assert second.max() >= 0.98 * loss.curvature


def test_derivative_and_curvature_of_the_multinomial_loss():
    rng = np.random.default_rng(0)
    f, y, h = rng.normal(size=(8, 3)), rng.integers(0, 3, 8), 1e-6
    for c in range(3):
        shift = h * np.eye(3)[c]
        slope = (Multinomial().value(y, f + shift) - Multinomial().value(y, f - shift)) / (2 * h)
        np.testing.assert_allclose(slope, Multinomial().derivative(y, f)[:, c], atol=1e-8)
    norms = [np.linalg.norm(np.diag(q) - np.outer(q, q), 2) for q in softmax(3 * rng.normal(size=(200, 2)), axis=1)]
    assert 0.45 < max(norms) <= Multinomial().curvature + 1e-12


@pytest.mark.parametrize("risk", RISKS, ids=str)
def test_weights_are_the_gradient_of_the_risk_and_sum_to_one(risk):
    losses = np.random.default_rng(1).exponential(size=12)
    weights, h = risk.weights(losses), 1e-6
    numeric = [(risk(losses + h * e) - risk(losses - h * e)) / (2 * h) for e in np.eye(12)]
    np.testing.assert_allclose(weights, numeric, atol=1e-7)
    assert weights.sum() == pytest.approx(1)
    assert weights.min() >= 0


@pytest.mark.parametrize("risk", RISKS[:-1], ids=str)
def test_integer_weights_mean_repeated_rows(risk):
    rng = np.random.default_rng(2)
    losses, counts = np.round(rng.exponential(size=9), 1), rng.integers(0, 4, 9)
    assert risk(losses, counts.astype(float)) == pytest.approx(risk(losses.repeat(counts)), rel=1e-12)
    total = np.zeros(9)
    np.add.at(total, np.arange(9).repeat(counts), risk.weights(losses.repeat(counts)))
    np.testing.assert_allclose(risk.weights(losses, counts.astype(float)), total, atol=1e-12)


def test_subquantile_is_the_mean_of_the_smallest():
    losses = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    assert Subquantile(0.6)(losses) == pytest.approx(2.0)
    assert Subquantile(0.5)(losses) == pytest.approx((1 + 2 + 0.5 * 3) / 2.5)


def test_tied_losses_share_the_boundary():
    np.testing.assert_allclose(Subquantile(0.5).weights(np.ones(4)), 0.25)


def test_per_class_keeps_the_same_share_of_every_class():
    codes = np.array([0] * 6 + [1] * 4)
    losses = np.r_[np.arange(6.0), 100 + np.arange(4.0)]
    weights = PerClass(Subquantile(0.5), codes).weights(losses)
    np.testing.assert_allclose(weights > 0, [1, 1, 1, 0, 0, 0, 1, 1, 0, 0])
    np.testing.assert_allclose(weights[:6].sum(), 0.6)


@pytest.mark.parametrize("quantile", [0, -0.1, 1.4, "half", None, True])
def test_quantile_out_of_range(quantile):
    with pytest.raises(ValueError, match="quantile must be"):
        Subquantile(quantile)(np.ones(3))


def test_smoothing_tends_to_the_hard_risk_from_below():
    losses = np.random.default_rng(3).exponential(size=40)
    hard = Subquantile(0.7)
    values = [Subquantile(0.7, smoothing=s)(losses) for s in (1.0, 0.1, 0.01, 1e-4)]
    assert np.all(np.diff(values) > 0)
    assert values[-1] == pytest.approx(hard(losses), abs=1e-3)
    assert values[-1] <= hard(losses) * (1 + 8 * EPS)
    np.testing.assert_allclose(Subquantile(0.7, smoothing=1e-5).weights(losses), hard.weights(losses), atol=1e-9)


@pytest.mark.parametrize("smoothing", [-0.1, "soft", None])
def test_smoothing_out_of_range(smoothing):
    with pytest.raises(ValueError, match="smoothing must be"):
        Subquantile(0.5, smoothing=smoothing)(np.ones(3))
