"""A package that is broken is named, with the cause and the remedy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kumihimo import Kumihimo
from kumihimo.core.errors import KumiError
from kumihimo.text import parts_of_speech
from kumihimo.text.common_words import load_common_words
from kumihimo.text.packages import TOKENIZER_FILE, find_wheel_file, loading_extra
from tests.fixtures_index import fill, tables


def test_common_words_are_the_small_ones_among_the_tokens() -> None:
    tokens = json.loads(find_wheel_file(TOKENIZER_FILE).read_bytes())["model"]["vocab"]
    words = {token[1:] for token in tokens if token.startswith("▁")}
    assert load_common_words() == {word for word in words if len(word) > 1 and word.isalpha() and word.islower()}


def test_a_missing_file_of_a_wheel_names_the_remedy() -> None:
    with pytest.raises(KumiError) as refused:
        find_wheel_file("weights/gone.safetensors")
    assert str(refused.value) == (
        "weights/gone.safetensors is missing from the installed wordllama: `pip install --force-reinstall wordllama`"
    )


@pytest.mark.parametrize(
    "error", [ImportError("no libz"), OSError("no libz"), ModuleNotFoundError("no libz", name="z")]
)
def test_a_broken_extra_names_its_cause_and_the_remedies(error: Exception) -> None:
    with pytest.raises(KumiError) as refused, loading_extra("zh", "rjieba opencc"):
        raise error
    assert str(refused.value) == (
        f"the extra `zh` is installed and cannot be loaded ({type(error).__name__}: no libz): `pip install "
        "--force-reinstall rjieba opencc` mends it, `pip uninstall rjieba opencc` removes it"
    )


@pytest.mark.parametrize(
    ("extra", "module", "loader", "text"),
    [
        ("ja", "sudachipy", "_load_sudachi", "田中一郎氏は東京で働いた。"),
        ("zh", "opencc", "_load_jieba", "李明在北京大学工作，他很高兴。"),
    ],
)
def test_a_build_with_a_broken_tagger_stops_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: str, module: str, loader: str, text: str
) -> None:
    for name in ("can_tag_japanese", "can_tag_chinese"):
        monkeypatch.setattr(parts_of_speech, name, lambda: True)
    monkeypatch.delattr(parts_of_speech._OF_THREAD, "tokenizer", raising=False)
    getattr(parts_of_speech, loader).cache_clear()
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path, {"notes/pier.txt": "Ada Vane built the pier."}) / "notes")
        before = tables(kumi)
        fill(tmp_path, {"notes/new.txt": text})
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
        with pytest.raises(KumiError, match=f"extra `{extra}` .*--force-reinstall"):
            kumi.index()
        assert tables(kumi) == before
