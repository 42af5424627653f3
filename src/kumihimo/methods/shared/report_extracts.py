"""question + reports -> points, without a model: their sentences, from as many communities as possible."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import log, sqrt

from kumihimo.core.context import Context, Tokenizer
from kumihimo.core.records import Community, KeyPoint, Reference, Report
from kumihimo.core.table import Table
from kumihimo.methods.shared.map_step import make_point, rank_points
from kumihimo.methods.shared.sentence_quality import is_prose, rate_sentence
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.sentences import is_table_row
from kumihimo.text.tokens import subject_terms

SourcedText = tuple[str, tuple[Reference, ...], bool]  # a text, what it rests on, whether it stands so in a document
_NAME_PATTERN = re.compile(r"\b[A-Z]+[a-z][\w'’-]*|^[A-Z][A-Z.'’ -]+:")  # what a theme is not called by; nor who speaks
_MIN_REPORTS = 3  # reports that share a word of which they may be about
_MAX_EXPANDED = 30  # communities of whose parts the reports are read, too
_SHORT_WORDS = 15  # words: a sentence of so many counts half
_POOL = 50  # reports that are searched out
_MIN_COVERAGE = 0.4  # share of what is asked about that a report has to speak of to be sought
_RATING_WEIGHT = 0.3  # what the rating of a report counts beside its being sought
# How one asks of the whole; where it is in a script without spaces, taken out of the question first.
CORPUS_WORDS = """across all any anything arise around articles back big biggest book brief briefly broad can central
    chief collection come common commonly compilation concerns conclusions connect connects content contents core
    corpus could cover covered covers deal debated discuss discussed discussion documents dominant dominate drawn
    emerge entire episodes essays essence essential everyone everything files find five focus frequent frequently
    general gist have help here highlight highlights idea ideas important inside interviews issues keep key kind learn
    lessons list main major material matters message most mostly motifs name notes often out outline overall overview
    papers passages patterns people picture point points prominent questions quick raised read recur recurring
    repeated revolve run said say says short sort sources speakers stand stands stories story storylines subject
    subjects sum summarise summarize summary takeaways talk ten texts theme themes these think thinks this those
    threads three through together topic topics treated trends up whole worried worry would writings s"""
CJK_CORPUS_PATTERN = re.compile(
    "文書集?|文章|資料[集群]?|記事|[この]の本|本書|全体像?|全部|全て|全編|[を一]通[して]*り?|主[なに要題旨張]|要[約点旨]|趣旨|話題|内容|概[要略]"
    "|論点|議論|共通|中心|核心|重要|大切|大事|大まか|大きな|一番|一言|繰り返|出て[くき]|取り上げ|多[いく]|見どころ|頻繁|考え|述べ|語られ|書かれ|扱[うわっ]"
    "|話し手|話[しす]|重視|の話|言[えうっ]|教え|挙げ|説明|知り|紹介|関心|人々|持[ちっ]|傾向|簡単|簡潔|三つ|一覧|読め|分か|テーマ|トピック|ドキュメント|エピソード|メッセージ"
    "|ポイント|コレクション|まとめ|何"
    "|什[么麼]|甚[么麼]|哪些|哪[几幾][个個]|[这這那]些|[这這][个個里裡裏批]+面?|文[集本中]|文[档檔]|文件|[资資]料[库庫]?|材料|故事|全文|作者[们們]?|信息|[几幾]句[话話]?|能不能|[记記][录錄]"
    "|整[体體]上?|全[体體]|所有|主要|主[题題旨]|[议議][题題]|[话話][题題]|重[点點要]|要[点點]|[观觀][点點]|思想|核心|[结結][论論]"
    "|共同[点點]?|共通|[总總][结結的]|概[括述览覽要]|[归歸][纳納]|大意|大致|大概|[简簡][要单單短介]+|介[绍紹]|列[出举舉]|表[达達]|反[复覆]|常[见見]|出[现現]"
    "|[贯貫]穿|始[终終]|涉及|想|[围圍][绕繞]|[讨討][论論]|[关關](?:心|注|于|於)|大家|人[们們]|[问問][题題]|一下|告[诉訴]我"
    "|内容|內容|[请請绍讲講谈談说說和与與都最些的是有在了用到事]"
)
# Of one thing, however it is put; not of the whole.
SINGLE_FACT_PATTERN = re.compile(
    r"^\W*$|\b(?:who|whom|whose|when|where|why|how (?:long|many|much|old|far))\b|\b(?:collection|meeting) point\b"
    r"|\b(?:article|chapter|item|page|part|section|step) (?:\d+|one|two|three|four|five|six|seven|eight|nine|ten)\b"
    "|なぜ|どうして|[为為]什[么麼]|[谁誰]|いつ|どこ(?!ろ)|どちら|いくつ|いくら|何[年月日時人名回歳円つ]"
    "|何[时時]|多少|多[长長久高大]|[几幾](?!句)|哪[里裡裏儿兒年]|什[么麼][时時]候",
    re.IGNORECASE,
)


def extract_report_points(
    question: str,
    chosen: Iterable[Report],
    reports: Table[Report],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    parts: Mapping[str, Sequence[Report]] | None = None,
) -> Context:
    """Sentences of the chosen reports: the best of each, then the second of each.

    Those of the reports that speak of what the question asks about; of all, the largest first, where it names nothing
    and asks of the whole: then the first of each report score between .5 and 1, the second between .25 and .5 ...
    Rows of tables score a quarter of that. parts: further reports, of what is part of a chosen one; they count as its.
    """
    all_of = {report.id: report for report in chosen}
    asked = question_terms(question)
    most = max((report.elements for report in all_of.values()), default=0) or 1
    size = {id: (report.elements / most + report.rating / 10) / 2 for id, report in all_of.items()}
    ranks = _search_reports(question, asked, all_of, reports, keyword_search, vector_search) if asked else size
    told = {id: _report_texts(report, (parts or {}).get(id, ())) for id, report in all_of.items() if id in ranks}
    themes = {} if asked else _find_themes(told)
    found: dict[str, tuple[float, KeyPoint]] = {}  # by text: chunks overlap, and so may reports
    for id, rank in sorted(ranks.items(), key=lambda item: (-item[1], item[0])):
        for turn, share, (text, sources, verbatim) in _order_texts(asked, themes.get(id, {}), told[id]):
            score = (0.25 if is_table_row(text) else 1.0) * (0.8 if asked else 0.5) ** turn * (rank + share) / 2
            if text not in found or found[text][0] < score:
                found[text] = score, make_point(text, sources, tokenizer, verbatim=verbatim)
    return rank_points(found.values())


def descendant_reports(
    chosen: Iterable[Report], communities: Table[Community], reports: Table[Report]
) -> dict[str, list[Report]]:
    """The reports of what the largest of these communities are made of, level by level; each by whose part it is."""
    largest = sorted(chosen, key=lambda report: (-report.elements, report.id))[:_MAX_EXPANDED]
    of = {report.id: report.id for report in largest}
    level = list(of)
    while level:
        children = {child: of[each.id] for each in communities.get_many(level).values() for child in each.children}
        of |= children
        level = list(children)
    found: dict[str, list[Report]] = {}
    for id, report in reports.get_many(id for id in of if of[id] != id).items():
        found.setdefault(of[id], []).append(report)
    return found


def question_terms(question: str) -> set[str]:
    """What a question asks about; nothing, where it asks of the documents as a whole.

    >>> about("What are the main themes of these stories?"), about("这些文档的主要主题是什么？")
    (set(), set())
    >>> about("What do people in the stories say of ferries?")
    {'ferry'}
    >>> sorted(about("Who is the main speaker?"))
    ['main', 'speaker']
    """
    asked = set(subject_terms(CJK_CORPUS_PATTERN.sub(" ", question))) - set(subject_terms(CORPUS_WORDS))
    return asked or (set(subject_terms(question)) if SINGLE_FACT_PATTERN.search(question) else asked)


def _search_reports(
    question: str,
    asked: set[str],
    chosen: dict[str, Report],
    reports: Table[Report],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
) -> dict[str, float]:
    """How well the reports fit that speak of what is asked, from 0 to 1."""
    by_words = Context(tuple(item for item in keyword_search(reports, question, k=_POOL) if item.record.id in chosen))
    shares = {item.record.id: len(asked & set(subject_terms(item.text))) / len(asked) for item in by_words}
    least = max(_MIN_COVERAGE, max(shares.values(), default=0.0) / 2)
    fused = Context.fuse(
        [by_words, vector_search(reports, question, k=_POOL, candidate_ids=sorted(chosen))], weights=[1.0, 0.5]
    )
    sure = {item.record.id: item.score for item in fused if shares.get(item.record.id, 0.0) >= least}
    return {
        id: (score + _RATING_WEIGHT * chosen[id].rating / 10) / (1.5 + _RATING_WEIGHT) for id, score in sure.items()
    }


def _report_texts(report: Report, parts: Sequence[Report]) -> list[SourcedText]:
    """What a report says, as it has it; then what those of its parts say."""
    said = list(dict.fromkeys(each for part in (report, *parts) for each in _extractive_sentences(part)))
    return said or ([(report.summary, (("reports", report.id),), False)] if report.summary.strip() else [])


def _find_themes(told: Mapping[str, Sequence[SourcedText]]) -> dict[str, dict[str, float]]:
    """What each report is about, and how much: the words that it says more often than others do.

    But: no detail of one or two, and no names, for those of a community tell who, seldom what.
    """
    counts = {id: Counter(word for text, _, _ in said for word in _theme_words(text)) for id, said in told.items()}
    among = Counter(word for count in counts.values() for word in count)
    of_all = Counter[str]()
    for count in counts.values():
        of_all.update(count)
    return {
        id: _distinctive_words(count, of_all, {word for word in count if among[word] >= _MIN_REPORTS})
        for id, count in counts.items()
    }


def _distinctive_words(count: Counter[str], of_all: Counter[str], words: set[str]) -> dict[str, float]:
    """Those of these words that are more frequent here than in all: how often, and by how much."""
    usual = count.total() / of_all.total() if count else 0.0
    lift = {word: count[word] / (of_all[word] * usual) for word in sorted(words)}
    return {word: sqrt(count[word]) * log(more) for word, more in lift.items() if more > 1}


@lru_cache(maxsize=65536)
def _theme_words(text: str) -> tuple[str, ...]:
    """What a sentence of prose speaks of that no name is, and no number."""
    return (
        tuple(word for word in subject_terms(_NAME_PATTERN.sub(" ", text)) if not word.isdigit())
        if is_prose(text)
        else ()
    )


def _order_texts(
    asked: set[str], themes: Mapping[str, float], said: Sequence[SourcedText]
) -> Iterator[tuple[int, float, SourcedText]]:
    """What a report says: in which turn it comes, and how much of what is asked it speaks of, from 0 to 1.

    Most to the point first; of the whole by how much of it are themes, lists and tables a turn later than prose.
    """
    if not asked:
        ranked = sorted(said, key=lambda each: (not is_prose(each[0]), -_theme_density(each[0], themes)))
        return ((turn + (not is_prose(each[0])), 1.0, each) for turn, each in enumerate(ranked))
    shares = [(len(asked & set(subject_terms(each[0]))) / len(asked), each) for each in said]
    most = sorted(filter(lambda pair: pair[0], shares), key=lambda pair: -pair[0])
    return ((turn, share, each) for turn, (share, each) in enumerate(most))


def _theme_density(text: str, themes: Mapping[str, float]) -> float:
    """How much of a text speaks of themes; less, the shorter it is, and where it does not stand alone."""
    words = _theme_words(text)
    return rate_sentence(text) * sum(themes.get(word, 0.0) for word in words) / (len(words) + _SHORT_WORDS)


def _extractive_sentences(report: Report) -> Iterator[SourcedText]:
    """The sentences of an extractive report, each with its chunks."""
    from kumihimo.index.data_refs import split_cited_statements

    ids = {number: id for table, number, id in report.data if table == "chunks"}
    for told in (report.summary, *(text for _, text in report.findings)) if report.extractive else ():
        for text, named in split_cited_statements(told):
            if chunks := tuple(("chunks", ids[number]) for number in named.get("chunks", ()) if number in ids):
                yield text, chunks, True
