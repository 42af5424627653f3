"""an answer -> the same answer without what tells which system wrote it: sources, markers, titles, stock phrases."""

import re
from functools import lru_cache
from typing import Literal

from kumihimo.text.sentences import ends_sentence
from kumihimo.text.tokens import content_tokens

StripMode = Literal["none", "markdown", "citations", "all"]


@lru_cache(maxsize=8192)
def blind_answer(text: str, question: str = "", strip: StripMode = "all") -> str:
    r"""Return an answer as the judge reads it.

    citations: without markers and without a list of references at the end. markdown: without markup. all: also without
    a title and without phrases about "the provided context".

    >>> blind_answer("## Who\n\n- **Ada** mended `it` [1, 3].\n- See [the log](x.md) [2]\n## When\n\nIn May.")
    'Who\n\nAda mended it.\nSee the log\nWhen\n\nIn May.'
    >>> blind_answer("# The ferry\n\nBased on the provided context, it left.\n\n### References\n\n- [1] ferry.md")
    'It left.'
    >>> blind_answer("## Who\n**Ada** [1]", strip="citations")
    '## Who\n**Ada**'
    """
    if strip in ("citations", "all"):
        text = remove_markers(cut_references(text))
    if strip == "all":
        text = remove_phrases(cut_title(text, question))
    if strip in ("markdown", "all"):
        for pattern, replacement in _MARKUP_RULES:
            text = pattern.sub(replacement, text)
    return text.strip()


_MARKUP_RULES = (
    (re.compile(r"^[ \t]*(?:```|~~~).*$\n?", re.M), ""),
    (re.compile(r"^[ \t]*(?:[-*_][ \t]*){3,}$\n?", re.M), ""),  # horizontal rules
    # the rule below a table's header
    (re.compile(r"^[ \t]*+\|?+(?:[ \t]*+:?-{2,}+:?[ \t]*+\|)++[ \t]*+(?::?-{2,}+:?)?[ \t]*+$\n?", re.M), ""),
    (re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.M), r"\1"),
    (re.compile(r"^[ \t]{0,3}#{1,6}[ \t]++(.*)$", re.M), lambda m: m[1].rstrip(" \t").rstrip("#").rstrip(" \t")),
    (re.compile(r"^[ \t]*(?:>[ \t]?)+", re.M), ""),
    (re.compile(r"^[ \t]*[-*+•][ \t]+", re.M), ""),
    (re.compile(r"^[ \t]*\d{1,2}[.)][ \t]+", re.M), ""),
    (re.compile(r"!?\[([^\]\n]{1,300})\]\([^)\s]{0,2000}\)"), r"\1"),
    (re.compile(r"(\*\*\*|\*\*|__)(?=\S)(.+?)(?<=\S)\1", re.S), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<!\w)_(?=\S)([^_\n]+?)(?<=\S)_(?!\w)"), r"\1"),
    (re.compile(r"`([^`\n]+)`"), r"\1"),
    (re.compile(r"\n{3,}"), "\n\n"),
)

# -- lists of references

_REFERENCES = (  # a heading above nothing but references
    "references?|reference (?:list|documents)|citations?|works cited|bibliography|"
    "参考文献|参考資料|引用文献|引用元|参照元|参考资料|參考資料|參考文獻|参考来源|參考來源|引用来源|引用來源|資料來源|资料来源"
)
_SOURCES = "sources(?: cited| used)?|source documents|出典|情報源|参照|来源|來源|出处|出處"  # perhaps above prose
_MARKED = r"[\s\#*_【\[\]】>-]*+"  # around a heading
_HEADING = re.compile(
    rf"{_MARKED}(?:\d{{1,2}}[.)]\s+)?(?:({_REFERENCES})|{_SOURCES}){_MARKED}(?:[:：]{_MARKED}(.*))?", re.I
)
_ITEM = re.compile(r"\s*(?:[-*+•・]|\d{1,3}[.)、]|\[[^\]\n]{1,40}\]|【[^】\n]{1,40}】|https?://)")
_NUMBERED_ITEM = re.compile(r"\s*(?:[-*+•・]\s+)?(?:\[\^?\d{1,4}\]|【\d{1,4}】)\s*+\S.*")
_POINTER = re.compile(
    r"https?://|\w\.[a-z][a-z0-9]{1,4}\b|\[\^?\d{1,4}\]|【\d{1,4}】", re.I
)  # a file, address or number
_MAX_ENTRY_CHARS = 400
_RULE = re.compile(r"\s*(?:[-*_]{3,}\s*)?")  # or an empty line


def cut_references(text: str) -> str:
    r"""Return an answer without the list of references at its end.

    >>> cut_references("It left [1].\n\n### References\n\n- [1] ferry.md\n- [2] tides.md")
    'It left [1].'
    >>> cut_references("船は出た。\n\n**出典**：港.md、潮.md"), cut_references("## Sources\n- The spring rises in May.")
    ('船は出た。', '## Sources\n- The spring rises in May.')
    """
    lines = text.rstrip().split("\n")
    for position in range(len(lines) - 1, -1, -1):
        if len(lines[position]) > _MAX_ENTRY_CHARS:
            break
        if heading := _HEADING.fullmatch(lines[position]):
            entries = [line for line in (heading[2] or "", *lines[position + 1 :]) if line.strip(" -*_")]
            is_list = all(_is_reference(entry, is_certain=bool(heading[1])) for entry in entries)
            return _trim_end(lines[:position]) if is_list and entries else text
    end = len(lines)
    while end and (_is_numbered_reference(lines[end - 1]) or (end < len(lines) and not lines[end - 1].strip())):
        end -= 1
    return _trim_end(lines[:end]) if end < len(lines) else text


def _trim_end(lines: list[str]) -> str:
    """Return the lines without a horizontal rule at the end."""
    while len(lines) > 1 and _RULE.fullmatch(lines[-1]):
        lines = lines[:-1]
    return "\n".join(lines).rstrip()


def _is_reference(line: str, *, is_certain: bool) -> bool:
    """Return whether a line below a heading is a reference.

    is_certain: the heading promises nothing else.
    """
    if len(line) > _MAX_ENTRY_CHARS or re.match(r"\s*#", line):
        return False
    if is_certain and _ITEM.match(line):
        return True
    return bool(_POINTER.search(line)) or not ends_sentence(line)


def _is_numbered_reference(line: str) -> bool:
    return bool(_NUMBERED_ITEM.fullmatch(line)) and len(line) <= _MAX_ENTRY_CHARS and not ends_sentence(line)


# -- markers

_NUMBERS = r"\^?\d{1,4}(?:\s*[,;、–-]\s*\d{1,4})*"
_KIND = "sources?|references?|data|documents?|reports?|chunks?|KG|DC|出典|参照|参考|情報源|資料|来源|來源|资料|引用"
_MARKERS = re.compile(
    rf"(?:(?<![ \t])[ \t]+)?(?:\((?:see |cf\. )?\[{_NUMBERS}\]\)"  # (see [1])
    rf"|\[{_NUMBERS}\]|【{_NUMBERS}】|[【\[]\d{{1,4}}†[^\]】\n]{{0,300}}[】\]]"  # [1, 2], 【3】, 【4†source】
    rf"|\[(?:{_KIND})(?:\s*[:：\#][^\]\n]{{0,300}}|\s+{_NUMBERS})?\]"  # [Data: Reports (1, 2)], [Source 3]
    rf"|\((?:{_KIND})\s*[:：](?:[^()\n]|\([^()\n]*\))*\)"  # (Source: ferry.md)
    rf"|（(?:{_KIND})\s*[:：][^）\n]*）)",
    re.I,
)


def remove_markers(text: str) -> str:
    """Return an answer without citation markers.

    >>> remove_markers("It left [1][2, 3] (Source: ferry.md), late [Data: Reports (1, +more)].")
    'It left, late.'
    >>> remove_markers("船は出た（出典：港.md）。渡轮停航【2】。")
    '船は出た。渡轮停航。'
    """
    return _MARKERS.sub("", text)


# -- titles

_TITLE = re.compile(r"\s*+(?:(\#{1,6})[ \t]++(.+)|\*\*([^*\n]{1,200})\*\*[ \t]*+[:：]?[ \t]*+)(?:\n|\Z)")
_LABEL = re.compile(r"\s*[*_]*(?:(?:final|short) )?(?:answer|response|回答|答え|答案)[*_]*\s*[:：][*_]*\s*", re.I)
_TITLE_SHARE = 0.5  # of the words of a title that restates the question


def cut_title(text: str, question: str) -> str:
    r"""Return an answer without the title at its beginning.

    A title is the only heading of its level, or restates the question. "Answer:" goes too.

    >>> cut_title("# GraphRAG on the ferry\n\nIt left.", "When?"), cut_title("**Answer:** It left.", "")
    ('It left.', 'It left.')
    >>> cut_title("## Causes\nRain.\n## Effects\nDelay.", "What happened?")
    '## Causes\nRain.\n## Effects\nDelay.'
    """
    if label := _LABEL.match(text):
        return text[label.end() :]
    title = _TITLE.match(text)
    if not title or not text[title.end() :].strip():
        return text
    rest, words, asked = text[title.end() :], content_tokens(title[2] or title[3]), {*content_tokens(question)}
    has_sibling = re.search(rf"^{title[1]}[ \t]" if title[1] else r"^\*\*[^*\n]+\*\*[ \t]*[:：]?[ \t]*$", rest, re.M)
    restates = sum(word in asked for word in words) > _TITLE_SHARE * len(words)
    return cut_title(rest.lstrip("\n"), question) if restates or not has_sibling else text


# -- phrases

_THE = r"(?:the|these|this|your) "
_GIVEN = r"(?:provided|given|available|retrieved|supplied|above|cited) "
_SURE = (
    r"(?:context|sources|documents|passages|excerpts|search results|knowledge (?:base|graph)|data ?set|"
    r"(?:text|document) chunks)"
)
_PLAIN = r"(?:data(?: tables)?|information|texts?|reports?|document|evidence|content|materials?|articles|source)"
_GIVEN_MATERIAL = (  # "the provided context", "the information provided"
    rf"(?:(?:{_THE})?(?:{_GIVEN}){{1,4}}(?:{_SURE}|{_PLAIN})|{_THE}(?:{_SURE}|{_PLAIN}) (?:provided|supplied))"
    r"(?! of\b)(?![\w-])"
)
_MATERIAL = rf"(?:{_GIVEN_MATERIAL}|{_THE}{_SURE}(?! of\b)(?![\w-]))"  # or "the sources"
_BY = (
    r"(?:based (?:up)?on|according to|drawing (?:up)?on|"
    r"as (?:stated|described|mentioned|noted|shown|reported) (?:in|by)|from|in)"
)
_SAY = (
    r"(?:say|state|mention|indicate|show|describe|note|report|explain|suggest|specify|contain|provide|give|reveal|"
    r"highlight)"
)
_OPENING = r"((?:\A|(?<=[.!?] )|(?<=\n))(?:[ \t]*(?:[-*+•]|\d{1,2}[.)])[ \t]+)?(?:\*\*)?)"
_JAPANESE_GIVEN = (
    "(?:(?:提供された|与えられた|検索された|上記の)"
    "(?:コンテキスト|資料|情報源|ソース|文書|ドキュメント|情報|データ|テキスト|文章|内容)|コンテキスト)"
)
_CHINESE_GIVEN = (
    "(?:(?:所|您|你)?(?:提供|给定|給定|检索到|檢索到|现有|現有|上述|以上)的?"
    "(?:上下文|资料|資料|文档|文檔|来源|來源|文件|信息|資訊|数据|數據|内容|內容|文本)|上下文)"
)
_OPENINGS = (  # what follows begins the sentence
    re.compile(
        rf"{_OPENING}(?:{_BY} (?:all (?:of )?)?{_MATERIAL}[,:]|(?:based on|according to) {_GIVEN_MATERIAL}"
        rf"|{_MATERIAL} (?:also |clearly )?{_SAY}s? that) (\S)",
        re.I,
    ),
    re.compile(
        rf"((?:\A|(?<=[。！？\n]))[ \t　]*(?:[-*•・]\s*)?)(?:{_JAPANESE_GIVEN}(?:からは|では|には)|"
        rf"(?:{_JAPANESE_GIVEN}|資料|情報源|文書|ドキュメント)(?:によれば|によると|に基づくと|に基づき|に基づいて))、?(\S)"
    ),
    re.compile(
        rf"((?:\A|(?<=[。！？\n]))[ \t　]*(?:[-*•]\s*)?)(?:根据|根據|依据|依據|基于|基於|按照|据|據)"
        rf"(?:{_CHINESE_GIVEN}|资料|資料|文档|文檔|来源|來源|文件)(?:中?的(?:信息|資訊|内容|內容))?(?:显示|顯示|可知)?[，,：](\S)"
    ),
)
_ASIDE = re.compile(
    rf",? \({_BY} {_MATERIAL}\)|, {_BY} {_MATERIAL}(?:,(?= )|(?=[.;:!?,]|$))"
    rf"| (?:according to {_MATERIAL}|as \w+ (?:in|by) {_MATERIAL})(?=[.;:!?,]|$)|,? {_BY} {_GIVEN_MATERIAL}",
    re.I | re.M,
)
_MENTION = re.compile(
    rf"\b(?:{_GIVEN_MATERIAL}|{_MATERIAL}(?: found| that were read)?(?= (?:{_SAY}s?|do|does|did)\b))"
    rf"(?: ({_SAY}|do|are|were|have)(?= ))?",
    re.I,
)
_VERBS = {"do": "does", "are": "is", "were": "was", "have": "has"}


def remove_phrases(text: str) -> str:
    """Return an answer without phrases about its sources.

    What cannot be cut gets one wording.

    >>> remove_phrases("Based on the provided context, the ferry left. It was late, according to the sources.")
    'The ferry left. It was late.'
    >>> remove_phrases("The sources say that it left. The provided documents do not say why, in the context of war.")
    'It left. The material does not say why, in the context of war.'
    >>> remove_phrases("提供された資料によると、船は出た。"), remove_phrases("根据提供的上下文，渡轮停航。")
    ('船は出た。', '渡轮停航。')
    """
    for pattern in _OPENINGS:
        text = pattern.sub(lambda match: match[1] + match[2].upper(), text)
    text = _MENTION.sub(_name_material, _ASIDE.sub("", text))
    return re.sub(_CHINESE_GIVEN, "资料", re.sub(_JAPANESE_GIVEN, "資料", text))


def _name_material(match: re.Match[str]) -> str:
    """Return the one wording for sources, with its verb in the singular."""
    name = "The material" if match[0][0].isupper() else "the material"
    verb = match[1] or ""
    return f"{name} {_VERBS.get(verb.lower(), f'{verb}s')}" if verb else name
