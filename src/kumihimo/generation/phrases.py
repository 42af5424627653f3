"""a question -> the sentences that introduce its answer, in its language."""

from kumihimo.core.context import Context
from kumihimo.text.tokens import subject_terms
from kumihimo.text.translation import script_language

Language = str  # en, ja, zh (simplified) or zh-Hant (traditional)
_MAX_EVIDENCE = 8  # items whose script is read
_REPLACED = {
    "en": "Searched for “{spelling}” instead of “{word}”.",
    "ja": "「{word}」の代わりに「{spelling}」を検索しました。",
    "zh": "已将“{word}”改为“{spelling}”进行搜索。",
    "zh-Hant": "已將「{word}」改為「{spelling}」進行搜尋。",
}


def question_language(question: str, context: Context) -> Language:
    """Return the language of a question.

    For a question in kanji alone the script of the evidence decides.

    >>> [question_language(text, Context()) for text in ("誰が門を描きましたか。", "东门钥匙", "Who?")]
    ['ja', 'zh', 'en']
    """
    return script_language(question, "".join(item.text for item in context.top(_MAX_EVIDENCE)))


def replaced_text(context: Context) -> str:
    """Return which words were searched in place of others.

    Forms of the same word need no mention.
    """
    others = [pair for pair in dict.fromkeys(context.replaced) if subject_terms(pair[0]) != subject_terms(pair[1])]
    text = _REPLACED[question_language(context.queries[0], context)] if others else ""
    return "\n".join(text.format(word=word, spelling=spelling) for word, spelling in others)
