"""questions and answers -> which pairs no judge should compare: no answer in the documents, or both refuse."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from kumihimo.evaluate.judging.blinding import blind_answer
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer, Verdict
from kumihimo.text.sentences import split_sentences

AnswersBySystem = Mapping[str, Mapping[str, SystemAnswer]]  # by system, by question id
_MAX_SENTENCES = 2  # of a refusal; a longer answer says something else too
_SOURCES = (
    r"(?:documents?|sources?|context|text|material|passages?|excerpts?|data|information|reports?|articles?|records|"
    r"knowledge (?:base|graph)|search results)"
)
_TELL = (
    r"(?:say|tell|mention|state|specify|describe|answer|address|indicate|discuss|explain|cover|contain|include|provide|"
    r"give)"
)
_TOLD = r"(?:mentioned|stated|specified|described|answered|addressed|indicated|discussed|explained|covered|known)"
_ADDITION = (  # between the sources and what they do not say
    r"(?:\d+|\w+ly|also|themselves|itself|provided|given|supplied|retrieved|found|read|available|above|below|here|in|from|on|about|"
    r"of|for|by|titled|entitled|published|dated|i|we|you|(?:that|which) (?:i|we|you|are|were))"
)
_SAYS = r"(?:says?|said|states?|stated|notes?|noted|shows?|showed|explains?|claims?|mentions?|that|who|but)"
_AFTER_INFORMATION = (  # "no information desk" says something
    r"(?=[^\w]*\Z|[,;:]| (?:about|on|of|regarding|concerning|related|relating|as to|in|to|from|for|that|which|whether|"
    r"available|provided|given|here|(?:is|was|are|were|could|can|has|have)\b|answers?|match(?:es)?|mentions?)\b)"
)
_REFUSAL = re.compile(
    rf"\b{_SOURCES}(?: {_ADDITION}\b(?:(?!\b{_SAYS}\b)[^.!?,]){{0,50}})?,?"
    rf" (?:(?:do|does|did)(?: not|n['’]t) (?:{_TELL}|have)|lacks?)\b"
    rf"|\b(?:is|are|was|were)(?: not|n['’]t) {_TOLD}(?: (?:in|by) (?:the|any|these) [\w ]*{_SOURCES})?[^\w]*\Z"
    rf"|\b(?:no|not enough|insufficient)(?: \w+){{0,2}} (?:information|passages?|mention|answer)\b{_AFTER_INFORMATION}"
    r"|^insufficient (?:information|data)"
    r"|\b(?:i|we|i am|i['’]m|it is|we are)\b[^.!?]{0,30}\b(?:unable|not able|not possible|impossible|cannot|can['’]t)"
    r"(?: to)? (?:answer|provide|determine|find|say|tell)\b"
    r"|\bcannot be (?:answered|determined)\b|\bi (?:do not|don['’]t) (?:know|have)\b|\[no-context\]"
    r"|(?:記述|記載|言及|情報|答え|回答|説明)(?:は|が|も)[^。]{0,12}(?:ません|ない)|"
    r"(?:資料(?!館)|文書|文脈|文章|箇所|抜粋|コンテキスト|情報源|ソース)(?:(?!によると|によれば)[^。]){0,40}"
    r"(?:述べ|記|書か|示さ|触れ|含ま|記載さ|言及さ)(?:ら)?れて(?:い(?:ません|ない)|おりません)|(?:わか|分か)りません|不明です|"
    r"(?:答え|回答)(?:られ|でき)(?:ません|ない)"
    r"|(?:资料|資料|上下文|文档|文檔|文件|信息|資訊|文本|段落|片段|文段|摘录|摘錄|答案)(?![台夹夾])(?:(?!说|說|称|稱|指出|表示)[^。]){0,30}"
    r"(?:没有|沒有|未|并未|並未)(?:被)?(?:提及|提到|找到|说明|說明|提供|包含|给出|給出|回答)"
    r"|(?:未|没有|沒有)(?:找到|提及|提到|提供)[^。]{0,20}(?:信息|資訊|段落|答案|内容|內容)|(?:无法|無法|不能)(?:回答|确定|確定|得知)"
    r"|我不知道|(?:信息|資訊)不足",
    re.I,
)
_NO_ANSWER = re.compile(  # a whole reference
    r"(?:(?:there is )?(?:insufficient|not enough|no) information|(?:there is )?no answer)"
    r"(?: (?:available|found|given|provided))?(?: to answer(?: (?:this|the) question)?)?"
    rf"(?: in the (?:\w+ )?{_SOURCES})?"
    r"|(?:(?:this|the) question is |it is )?(?:unanswerable|not answerable)"
    r"|(?:(?:this|the) question |it )?cannot be answered"
    rf"|(?:it is )?not (?:(?:{_TOLD}|given|found|contained) )?in the (?:\w+ )?{_SOURCES}"
    rf"|(?:the )?(?:\w+ )?{_SOURCES} (?:do|does)(?: not|n['’]t) (?:say|tell|(?:say|mention|state) (?:it|so|this|that))"
    r"|i (?:do not|don['’]t) know"
    r"|情報(?:が|は)?(?:不足|足りません|不足しています|ありません)|(?:回答|解答)(?:不能|不可|できません)|答えられません"
    r"|(?:答え|回答)(?:が|は)?(?:なし|無し|ない|ありません)|わかりません|分かりません"
    r"|(?:資料|文書|文脈|本文|文章|文中)(?:の中)?(?:に|には)?(?:答え|回答|記載|記述|情報)?(?:が|は)?(?:なし|無し|ない|ありません)"
    r"|(?:信息|資訊|资讯)不足|(?:该|該|此)?(?:问题|問題)?(?:无法|無法|不能)回答|(?:没有|沒有|无|無)答案"
    r"|(?:文档|文檔|文件|资料|資料|文本|上下文|文)(?:中|里|裡)?(?:没有|沒有|未)(?:提及|提到|答案|说明|說明|相关信息|相關資訊)?",
    re.I,
)
_GOLD_KEYS = {"answerable": False, "unanswerable": True, "is_impossible": True}  # SQuAD 2.0 has the last one


@lru_cache(maxsize=8192)
def is_refusal(text: str) -> bool:
    """Return whether an answer only says that it cannot answer.

    An empty answer is a refusal.

    >>> is_refusal("The documents do not say who paid. [1]"), is_refusal("資料には記載がありません。"), is_refusal("")
    (True, True, True)
    >>> is_refusal("Ada paid. The documents do not say how much.")
    False
    """
    plain = blind_answer(text)
    sentences = [plain[start:end] for start, end in split_sentences(plain)]
    return len(sentences) <= _MAX_SENTENCES and (not sentences or bool(_REFUSAL.search(sentences[0])))


def is_unanswerable(question: EvalQuestion) -> bool:
    """Return whether a question has no answer in the documents.

    Its row says so, or its whole reference.

    >>> is_unanswerable(EvalQuestion("q", "Who?", more={"answerable": False}))
    True
    >>> references = ("Insufficient information.", "The data center does not provide cooling.")
    >>> [is_unanswerable(EvalQuestion("q", "Who?", reference=text)) for text in references]
    [True, False]
    """
    if any(question.more.get(key) is value for key, value in _GOLD_KEYS.items()):
        return True
    return bool(_NO_ANSWER.fullmatch(blind_answer(question.reference, strip="citations").strip(" .。!！")))


def is_comparable(question: EvalQuestion, a: SystemAnswer, b: SystemAnswer) -> bool:
    """Return whether a judge should compare two answers.

    The question has an answer, and at least one of the two does not refuse.
    """
    return not is_unanswerable(question) and not (is_refusal(a.text) and is_refusal(b.text))


def comparable_verdicts(
    verdicts: Iterable[Verdict], questions: Iterable[EvalQuestion], answers: AnswersBySystem
) -> list[Verdict]:
    """Return the verdicts on answers that should be compared."""
    by_id = {question.id: question for question in questions}

    def is_kept(verdict: Verdict) -> bool:
        question = by_id.get(verdict.question)
        a, b = (answers.get(system, {}).get(verdict.question) for system in (verdict.a, verdict.b))
        return not (question and a and b) or is_comparable(question, a, b)

    return [verdict for verdict in verdicts if is_kept(verdict)]


@dataclass(frozen=True, slots=True)
class Refusals:
    """The refusals of a system. unanswerable, answerable: refused questions, out of those `of` each kind."""

    system: str
    unanswerable: int
    of_unanswerable: int
    answerable: int
    of_answerable: int


def count_refusals(questions: Iterable[EvalQuestion], answers: AnswersBySystem) -> tuple[Refusals, ...]:
    """Count the refusals of each system, rightly and wrongly."""
    is_empty = {question.id: is_unanswerable(question) for question in questions}
    rows: list[Refusals] = []
    for system, by_question in answers.items():
        unanswerable, answerable = (
            [is_refusal(row.text) for id, row in by_question.items() if is_empty.get(id) is kind and not row.failed]
            for kind in (True, False)
        )
        rows.append(Refusals(system, sum(unanswerable), len(unanswerable), sum(answerable), len(answerable)))
    return tuple(rows)
