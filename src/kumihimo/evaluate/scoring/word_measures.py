"""A case -> the result of each measure without a model: words, refusals."""

import re
from collections import Counter
from functools import cache
from unicodedata import category, normalize

from kumihimo.evaluate.claims.study_claims import rouge_distances, rouge_tokens
from kumihimo.evaluate.judging.refusals import is_refusal, is_unanswerable
from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, ScoreResult, Tools

_ARTICLES = re.compile(r"\b(a|an|the)\b")


# -- words


@cache  # large character sets are slow to compile
def _token_pattern() -> re.Pattern[str]:
    """Return the pattern of words, or characters of unspaced scripts."""
    unspaced = (
        "々〆ー\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f\U00020000-\U0003134f"
    )
    return re.compile(rf"[{unspaced}]|[^\s{unspaced}]+")


def normalise_answer(text: str) -> str:
    """Return the text without case, width, punctuation, articles and extra spaces.

    The rules are those of SQuAD (2016).
    But: all Unicode punctuation and symbols go, where SQuAD removes only ASCII. Full-width letters become half-width.

    >>> normalise_answer("The  Émile-Café, «Ｔｅｒｎ»!"), normalise_answer("「組紐」は、十月。")
    ('émilecafé tern', '組紐は十月')
    """
    folded = normalize("NFKC", text).casefold()
    bare = "".join("" if category(letter)[0] in "PS" else letter for letter in folded)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def answer_tokens(text: str) -> list[str]:
    """Return the normalised words, or characters of unspaced scripts.

    >>> answer_tokens("The Tern of 1922"), answer_tokens("組紐 in 2 colours")
    (['tern', 'of', '1922'], ['組', '紐', 'in', '2', 'colours'])
    """
    return _token_pattern().findall(normalise_answer(text))


def exact_match(case: Case, _: Tools) -> ScoreResult:
    """Score 1 if the normalised answer equals a reference, else 0 (SQuAD).

    The best of several references counts. Undefined without a reference, or if every reference is only punctuation and
    articles. An empty answer scores 0.
    """
    references = [plain for text in case.references if (plain := normalise_answer(text))]
    if not references:
        return _no_reference_words(case)
    answer = normalise_answer(case.answer_text)
    return ScoreResult(float(answer in references), detail={"said": answer})


def token_f1(case: Case, _: Tools) -> ScoreResult:
    """Score the F1 of words shared with a reference (SQuAD).

    A word counts as often as both texts have it. "The Tern sailed" against "a white Tern": 1 of 2 words, 1 of 2: .5.
    In Japanese and Chinese, characters count. The best of several references counts. Undefined like exact_match; 0
    without a shared word.
    """
    references = [words for text in case.references if (words := answer_tokens(text))]
    if not references:
        return _no_reference_words(case)
    answer = answer_tokens(case.answer_text)
    return ScoreResult(max(token_overlap_f1(answer, reference) for reference in references))


def rouge_l(case: Case, _: Tools) -> ScoreResult:
    """Score the F1 of the longest common subsequence of words (ROUGE-L).

    Lin, 2004. The words are those of the clusters of claims: lightly stemmed, pairs of characters in Japanese and
    Chinese. "The Tern sailed" against "a Tern has sailed": 2 of 3 words, 2 of 4: .571. The best of several references
    counts.
    """
    references = [text for text in case.references if rouge_tokens(text)]
    if not references:
        return _no_reference_words(case)
    return ScoreResult(1 - float(rouge_distances([case.answer_text, *references])[0, 1:].min()))


def _no_reference_words(case: Case) -> ScoreResult:
    return ScoreResult(None, "the reference answer has no words" if case.references else NO_REFERENCE)


def token_overlap_f1(one: list[str], other: list[str]) -> float:
    """Return 2PR / (P + R) of two token lists.

    >>> token_overlap_f1(["a", "a", "b"], ["a", "c"])  # 1 of 3, 1 of 2
    0.4
    """
    shared = (Counter(one) & Counter(other)).total()
    return 2 * shared / (len(one) + len(other)) if shared else 0.0


# -- refusals


def refusal(case: Case, _: Tools) -> ScoreResult:
    """Score 1 for the refusal of an unanswerable question, else 0.

    Undefined for other questions.
    """
    if not is_unanswerable(case.question):
        return ScoreResult(None, "the documents answer the question")
    return ScoreResult(float(is_refusal(case.answer.text)))


def wrong_refusal(case: Case, _: Tools) -> ScoreResult:
    """Score 1 for the refusal of an answerable question, else 0.

    Undefined for questions without an answer.
    """
    if is_unanswerable(case.question):
        return ScoreResult(None, "the documents do not answer the question")
    return ScoreResult(float(is_refusal(case.answer.text)))
