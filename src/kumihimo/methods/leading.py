"""question + reports -> points, without a model: their sentences, from as many communities as possible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kumihimo.core.context import Context, Ruler
from kumihimo.core.records import Point, Reference, Report
from kumihimo.core.table import Table
from kumihimo.methods.points import best, point
from kumihimo.ports.models import Match, Near
from kumihimo.ports.sentences import is_row
from kumihimo.views.words import subjects

Said = tuple[str, tuple[Reference, ...], bool]  # a text, what it rests on, whether it stands so in a document
_STOPS = (".", "!", "?", "…", "。", "！", "？", "．")
_POOL = 50  # reports that are searched out
_CLEAR = 0.4  # share of what is asked about that a report has to speak of to be sought
_SIZE = 0.3  # what the rating of a report counts beside its being sought
# How one asks of the whole; where it is in a script without spaces, taken out of the question first.
_WHOLE = """across all any articles can central chief collection come common concerns content contents corpus cover covered
    deal discuss discussed discussion documents entire episodes essays everything files focus general gist have
    highlights idea ideas important interviews issues key kind learn main major matters message mostly most notes often
    overall overview papers passages people point points recurring said say says sort sources speakers stories story
    subject subjects summarise summarize summary takeaways talk texts theme themes these think thinks this those topic
    topics treated up whole would"""
_WHOLE_WIDE = re.compile(
    "文書|文章|資料|記事|この本|本書|全体|全部|を通して|主な|主要|主題|主旨|趣旨|話題|内容|概要|要約|要点|論点|共通|中心|重要|大切"
    "|一番|繰り返|出てく|多い|考え|述べ|語られ|書かれ|教え|テーマ|トピック|ドキュメント|エピソード|メッセージ|ポイント|まとめ|何"
    "|什[么麼]|甚[么麼]|哪些|[这這那]些|[这這][个個]|文[档檔]|文件|文中|[资資]料[库庫]?|材料|整[体體]|所有|主要|主[题題]|[话話][题題]|重[点點]"
    "|[观觀][点點]|思想|共同[点點]?|[总總][结結]|概[括述]|大意|反[复覆]|出[现現]|涉及|[讨討][论論]|大家|[关關]心|[问問][题題]|一下"
    "|内容|內容|[请請讲講谈談说說都最些的是有在了]"
)
# Of one thing, however it is put; not of the whole.
_ONE = re.compile(
    r"\b(?:who|whom|whose|when|where|how (?:long|many|much|old|far))\b|[谁誰]|いつ|どこ|どちら|いくつ|いくら|何[年月日時人名回歳円つ]"
    "|何[时時]|多少|多[长長久高大]|几|幾|哪[里裡裏儿兒年]|什[么麼][时時]候",
    re.IGNORECASE,
)


def leading(
    question: str, chosen: Iterable[Report], reports: Table[Report], match: Match, near: Near, ruler: Ruler
) -> Context:
    """Sentences of the chosen reports: the best of each, then the second of each.

    Those of the reports that speak of what the question asks about; of all, the largest first, where it names nothing
    and asks of the whole: then the first of each report score between .5 and 1, the second between .25 and .5 ...
    Rows of tables score a quarter of that.
    """
    all_of = {report.id: report for report in chosen}
    asked = about(question)
    most = max((report.elements for report in all_of.values()), default=0) or 1
    size = {id: (report.elements / most + report.rating / 10) / 2 for id, report in all_of.items()}
    ranks = _sought(question, asked, all_of, reports, match, near) if asked else size
    found: dict[str, tuple[float, Point]] = {}  # by text: chunks overlap, and so may reports
    for id, rank in sorted(ranks.items(), key=lambda item: (-item[1], item[0])):
        for turn, share, (text, sources, verbatim) in _said(asked, all_of[id]):
            score = (0.25 if is_row(text) else 1.0) * (0.8 if asked else 0.5) ** turn * (rank + share) / 2
            if text not in found or found[text][0] < score:
                found[text] = score, point(text, sources, ruler, verbatim=verbatim)
    return best(found.values())


def about(question: str) -> set[str]:
    """What a question asks about; nothing, where it asks of the documents as a whole.

    >>> about("What are the main themes of these stories?"), about("这些文档的主要主题是什么？")
    (set(), set())
    >>> about("What do people in the stories say of ferries?")
    {'ferry'}
    >>> about("Where is the key?")
    {'key'}
    """
    asked = set(subjects(_WHOLE_WIDE.sub(" ", question))) - set(subjects(_WHOLE))
    return asked or (set(subjects(question)) if _ONE.search(question) else asked)


def _sought(
    question: str, asked: set[str], chosen: dict[str, Report], reports: Table[Report], match: Match, near: Near
) -> dict[str, float]:
    """How well the reports fit that speak of what is asked, from 0 to 1."""
    by_words = Context(tuple(item for item in match(reports, question, k=_POOL) if item.record.id in chosen))
    shares = {item.record.id: len(asked & set(subjects(item.text))) / len(asked) for item in by_words}
    least = max(_CLEAR, max(shares.values(), default=0.0) / 2)
    fused = Context.fuse([by_words, near(reports, question, k=_POOL, among=sorted(chosen))], weights=[1.0, 0.5])
    sure = {item.record.id: item.score for item in fused if shares.get(item.record.id, 0.0) >= least}
    return {id: (score + _SIZE * chosen[id].rating / 10) / (1.5 + _SIZE) for id, score in sure.items()}


def _said(asked: set[str], report: Report) -> Iterator[tuple[int, float, Said]]:
    """What a report says: in which turn it comes, and how much of what is asked it speaks of, from 0 to 1.

    Most to the point first; of the whole as the report has it, lists and tables a turn later than prose.
    """
    said = list(_sentences(report))
    if not said and report.summary.strip():
        said = [(report.summary, (("reports", report.id),), False)]
    if not asked:
        said.sort(key=lambda each: _plain(each[0]))
        return ((turn + _plain(each[0]), 1.0, each) for turn, each in enumerate(said))
    shares = [(len(asked & set(subjects(each[0]))) / len(asked), each) for each in said]
    ranked = sorted(filter(lambda pair: pair[0], shares), key=lambda pair: -pair[0])
    return ((turn, share, each) for turn, (share, each) in enumerate(ranked))


def _plain(text: str) -> bool:
    """Whether it is something else than a sentence of prose."""
    return is_row(text) or not text.rstrip("”’\"')]*_」』").endswith(_STOPS)


def _sentences(report: Report) -> Iterator[Said]:
    """The sentences of an extractive report, each with its chunks."""
    from kumihimo.index.referring import statements

    ids = {number: id for table, number, id in report.data if table == "chunks"}
    for told in (report.summary, *(text for _, text in report.findings)) if report.extractive else ():
        for text, named in statements(told):
            if chunks := tuple(("chunks", ids[number]) for number in named.get("chunks", ()) if number in ids):
                yield text, chunks, True
