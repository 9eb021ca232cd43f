"""Estimators know their page of the reference, and say what stands for keywords that scikit-learn's classes have."""

import inspect
from email.message import Message
from importlib import metadata

import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils import estimator_html_repr

import buttress
from buttress import (
    SVC,
    AdversarialClassifier,
    AdversarialLinearSVC,
    AdversarialSVC,
    AdvSVM,
    CertifiedSVC,
    FreeRangeSVC,
    _documented,
)
from buttress.relational import EntityFeatures

ESTIMATORS = [kind for name in buttress.__all__ if inspect.isclass(kind := getattr(buttress, name))
              and issubclass(kind, BaseEstimator) and kind.__module__.split(".")[1] != "risks"] + [EntityFeatures]


@pytest.fixture
def published(monkeypatch):
    """The package as if it named a site."""
    named = Message()
    named["Project-URL"] = "Documentation, https://docs.example/"
    monkeypatch.setattr(metadata, "metadata", lambda name: named)
    _documented.site.cache_clear()
    yield "https://docs.example"
    _documented.site.cache_clear()


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_an_estimator_knows_its_page(kind, published):
    link = kind.__new__(kind)._get_doc_link()
    name = link.removeprefix(f"{published}/reference/generated/").removesuffix(".html")
    found = buttress
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    assert found is kind


def test_the_picture_in_a_notebook_links_to_it(published):
    assert f"{published}/reference/generated/buttress.SVC.html" in estimator_html_repr(SVC())


def test_a_subclass_of_the_users_is_not_in_our_reference(published):
    class Mine(SVC):
        pass

    Mine.__module__ = "mine"
    assert Mine()._get_doc_link() == ""


@pytest.mark.parametrize("ours", [AdversarialClassifier, AdversarialSVC, AdvSVM, CertifiedSVC, AdversarialLinearSVC,
                                  FreeRangeSVC])
@pytest.mark.parametrize("name", ["class_weight", "probability", "shrinking", "verbose"])
def test_so_do_those_of_an_svm_in_the_adversarial_ones(ours, name):
    with pytest.raises(TypeError, match=f"has no parameter '{name}'. "):
        ours(**{name: True})


@pytest.mark.parametrize(("name", "home"), [("defense", "CertifiedSVC"), ("solver", "AdvSVM"), ("n_passes", "AdvSVM"),
                                            ("tune", "AdversarialClassifier"), ("degree", "Polynomial")])
def test_a_keyword_that_is_of_another_machine_names_it(name, home):
    with pytest.raises(TypeError, match=f"AdversarialSVC has no parameter '{name}'. .*{home}"):
        AdversarialSVC(**{name: 1})


@pytest.mark.parametrize(("ours", "name", "home"), [
    (AdversarialLinearSVC, "attack", "FreeRangeSVC"), (AdversarialLinearSVC, "C_f", "FreeRangeSVC"),
    (FreeRangeSVC, "attack", "AdversarialLinearSVC"), (FreeRangeSVC, "eps", "AdversarialLinearSVC")])
def test_the_two_linear_machines_name_each_other(ours, name, home):
    with pytest.raises(TypeError, match=f"has no parameter '{name}'. .*{home}"):
        ours(**{name: 1})


def test_other_unknown_keywords_are_refused_as_always():
    with pytest.raises(TypeError, match="unexpected keyword argument 'gama'"):
        SVC(gama=1.0)


def test_clone_and_parameters_are_untouched():
    assert clone(SVC(C=2.0)).C == 2.0
    assert "C" in inspect.signature(SVC).parameters
