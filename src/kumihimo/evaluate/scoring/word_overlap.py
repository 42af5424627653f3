"""an answer + reference answers -> exact_match, token_f1: what words tell without a model."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from unicodedata import category, normalize

from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, ScoreResult, Tools

_ARTICLES = re.compile(r"\b(a|an|the)\b")


@cache  # sets of so many characters take a while to compile
def _token_pattern() -> re.Pattern[str]:
    """Words; of scripts that are written without spaces, characters."""
    alone = "々〆ー\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f\U00020000-\U0003134f"
    return re.compile(rf"[{alone}]|[^\s{alone}]+")


def normalise_answer(text: str) -> str:
    """Without case, widths, punctuation, English articles and what is too much of white space (SQuAD, 2016).

    But: Unicode's punctuation, where SQuAD knows ASCII's alone; symbols such as `$` and `+` go as there; full-width
    letters are as any.

    >>> normalised("The  Émile-Café, «Ｔｅｒｎ»!"), normalised("「組紐」は、十月。")
    ('émilecafé tern', '組紐は十月')
    """
    folded = normalize("NFKC", text).casefold()
    bare = "".join("" if category(letter)[0] in "PS" else letter for letter in folded)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def answer_tokens(text: str) -> list[str]:
    """
    >>> tokens("The Tern of 1922"), tokens("組紐 in 2 colours")
    (['tern', 'of', '1922'], ['組', '紐', 'in', '2', 'colours'])
    """
    return _token_pattern().findall(normalise_answer(text))


def exact_match(case: Case, _: Tools) -> ScoreResult:
    """1 if the answer is a reference answer but for case, punctuation, articles and spaces, else 0 (SQuAD).

    The best of several references counts. Undefined without one, and where one is nothing but punctuation and
    articles; an empty answer is 0.
    """
    known = {text: normalise_answer(text) for text in case.references}
    wanted = {text: plain for text, plain in known.items() if plain}
    if not wanted:
        return ScoreResult(None, "the reference answer has no words" if known else NO_REFERENCE)
    said = normalise_answer(case.answer_text)
    return ScoreResult(float(said in wanted.values()), detail={"said": said})


def token_f1(case: Case, _: Tools) -> ScoreResult:
    """2PR / (P + R) of the words that answer and reference share, each as often as in both (SQuAD).

    "The Tern sailed" against "a white Tern": 1 of 2 words, 1 of 2: .5. Of Japanese and Chinese the characters count.
    The best of several references. Undefined as exact_match; 0 where no word is shared.
    """
    wanted = [found for text in case.references if (found := answer_tokens(text))]
    if not wanted:
        return ScoreResult(None, "the reference answer has no words" if case.references else NO_REFERENCE)
    said = answer_tokens(case.answer_text)
    return ScoreResult(max(token_overlap_f1(said, reference) for reference in wanted))


def token_overlap_f1(one: list[str], other: list[str]) -> float:
    """
    >>> overlap(["a", "a", "b"], ["a", "c"])  # 1 of 3, 1 of 2
    0.4
    """
    shared = (Counter(one) & Counter(other)).total()
    return 2 * shared / (len(one) + len(other)) if shared else 0.0
