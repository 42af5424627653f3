"""question -> whether it is broad, and its topic: by word lists in English, Japanese and Chinese."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from kumihimo.methods.shared.report_extracts import (
    CJK_CORPUS_PATTERN,
    CORPUS_WORDS,
    SINGLE_FACT_PATTERN,
    question_terms,
)
from kumihimo.text.tokens import subject_terms

# Patterns are compiled on first use: most questions need few of them.
# Parts and authors of a corpus, in a clear sense: a question with one of these words is broad.
_CORPUS_PARTS = "conversations episodes guests interviewees interviews panelists podcast podcasts transcripts"
# Parts and authors in an ambiguous sense: these count only with a verb of saying, or a word of frequency.
_POSSIBLE_PARTS = """articles authors chapters commentators contributors discussions documents essays host hosts
    interviewers papers participants passages presenters reports respondents speakers stories talks texts writers"""
# People: they count in the present tense only. `Which experts did the court hear?` is about one event.
_PEOPLE = """citizens clients companies customers developers employees engineers entrepreneurs executives experts firms
    founders innovators investors leaders managers newcomers organisations organizations patients people practitioners
    professionals readers researchers residents reviewers scholars scientists startups students teachers teams tenants
    thinkers users veterans"""
_SAY_VERBS = """according address advise advocate agree approach argue assess believe cite consider criticise criticize
    define describe described differ disagree discuss emphasise emphasize envision evaluate explain explains explore
    express focus foresee highlight identify mention perceive predict raise recommend recount reflect regard respond
    revolve said say says speculate stress suggest talk tell tells think"""
_CONTAIN_VERBS = """contain contains cover covers deal deals feature features give offer provide represented see share
    speak touch vary view"""  # verbs with the meaning of saying, next to parts or views
_FREQUENCY_WORDS = """across amongst common commonly consensus consistent consistently contrasting differ different
    diverse frequent frequently general generally mostly multiple often overall recurrent recurring repeatedly similar
    tend throughout typical typically unanimous usual usually various widely"""
_VIEW_NOUNS = """anecdotes attitudes beliefs criticisms experiences insights opinions perceptions perspectives
    sentiments stances standpoints viewpoints"""
_TOPIC_NOUNS = """advice challenges comments concerns examples lessons misconceptions narratives patterns predictions
    quotes recommendations stories subjects takeaways themes thoughts topics trends views"""
_SAY_PARTICIPLES = """brought cited covered debated discussed emphasised emphasized expressed given highlighted
    identified mentioned predicted presented raised recommended shared suggested talked"""
# Further words that are no topic.
_GENERIC_WORDS = """according after also among anecdote another any appear appears are article aspect aspects associated
    author based because become becoming been before being best between called can certain compare compared comparing
    concerning considerations considered controversial conversation could did discuss discussion document does doing
    due during effect effects episode etc even ever example examples exist experts find from get given giving guest
    guests had has have he how i identified impact impacts importance important influence influences instance
    instances interview into involve involved involving its just kinds lead leaders leads least like make makes making
    many may might more most much must nature new notable one opinion other others our over own paper particular
    particularly people perceived perspective potential potentially prediction primarily quote really regard regarding
    related relation relative role roles see seem seems seen set several she should significance significant
    significantly some speaker specific specifically standout story such surprising term terms than their them there
    these they through together toward towards types unique upon used using view was way ways we were when where
    whether while who why within without work working world would"""
_NAME_PATTERN = r"(?<![.?!:;\"“‘(] )(?<!^)\b[A-Z][\w’'-]*|\d{3,}"
_ACRONYM_PATTERN = r"(?:I|(?!\d+$)[A-Z0-9&/-]{2,}(?:[’']?s)?)(?:[’'-]\w+)?"  # I, I'm, AI, APIs, AI-based
_ABOUT_PATTERN = r"\b(?:about|on|regarding|concerning|around|towards?)\b"
_FACTOID_PATTERN = r"^(?i:\W*(?:who|whom|whose|when|where|how (?:many|much|old|long|far|tall|big))\b)"
_PAST_PATTERN = r"\b(?:did|was|were|had)\b"
# Users who ask about themselves want advice on one case.
_FIRST_PERSON_PATTERN = r"\b(?:I|me|my|we|our|should|must|needs?|have to|allowed)\b"
_PARTS_ABOUT_PATTERN = (
    r"\b(?:articles|conversations|discussions|interviews|essays|reports|stories|talks|texts) "
    r"(?:about|on|of how|regarding)\b"
)
_DISCUSSED_PATTERN = r"\bare (?:\w+ )?(?:debated|discussed|emphasi[sz]ed|highlighted|mentioned)\b"
_ANY_PATTERN = r"\W*(?:are|did|do|does|has|have|is) any\b"
_NOUN_CLASSES = ("views", "topics")
_PLURAL_PATTERN = r"\b(?:advice|are|do|have|there)\b"
_CJK = "[\u3041-\u30fa\u3400-\u9fff]"

_CJK_NAME = "[「『《〈“]|[ァ-ヺー]・[ァ-ヺー]|·|さん|[^\\W一二三四五六七八九十各両]氏|\\d{3,}|[A-Z][a-z]"
_CJK_PARTS = (
    "ゲスト|エピソード|話し手|登壇者|出演者|対談|インタビュー|ポッドキャスト"
    "|嘉[宾賓]|受[访訪]者|[访訪][谈談]|[哪每各][些几幾]?[集期]|播客"
)
_CJK_POSSIBLE_PARTS = (
    "(?:これらの|それらの|各|複数の|[这這哪][些几幾]|所有|多篇|不同)的?"
    "(?:記事|論文|文書|資料|発言|文章|文[档檔]|文件|[资資]料|[报報][道導]|[论論]文|故事|作者)"
    "|(?:記事|論文|文書|資料|著者|筆者|作者|作家|参加者|専門家|経営者|技術者|研究者|起業家|リーダー|指導者|人)(?:たち|々|ら(?=[はがの]))"
    "|顧客|社員|従業員|利用者|患者|住民|市民|読者|学生|客户|[顾顧]客|[员員]工|用[户戶]|居民|[读讀]者"
    "|(?:[领領][导導]者|[专專]家|[学學]者|作者|工程[师師]|[创創][业業]者|企[业業]家|科[学學]家|研究者|人)[们們]|大家"
)
_CJK_SAY = (
    "話題|語[らるっりれ]|述べ|話[しすさ]|言[いうっ及]|議論|論じ|触れ|取り上げ|挙げ|考え(?!られ)|見て|捉え|感じ|意見|見解|見方|主張|評価し"
    "|勧め|助言|強調|共有"
    "|[说說谈談讲講]|[怎如][么麼何样樣]*看待?|[讨討][论論]|提[到及]|[认認][为為]|看[待法]|[观觀][点點]|意[见見]|建[议議]|[强強][调調]"
    "|描述|分享|[评評][价價]|主[张張]|[态態]度"
)
_CJK_FREQUENCY = (
    "よく|頻繁|しばしば|頻度|繰り返|共通|一般に|様々|さまざま|異なる|違い|傾向|それぞれ|各[回自]|複数"
    "|[经經]常|常常|[频頻]繁|反[复覆]|多次|普遍|共同|不同|各[种種自]|多久"
)
_CJK_BROAD = (
    f"(?:{_CJK_PARTS}).*(?:{_CJK_SAY}|{_CJK_FREQUENCY})|(?:{_CJK_SAY}|{_CJK_FREQUENCY}).*(?:{_CJK_PARTS})"
    f"|(?:{_CJK_POSSIBLE_PARTS}).*(?:{_CJK_SAY})"
    "|(?:よく|頻繁に|しばしば|繰り返し|どのくらいの頻度で).*(?:話され|語られ|取り上げられ|議論され|言及され|触れられ|挙げられ)"
    "(?:て|ま|る(?:課題|論点|話題|問題|テーマ|意見))"
    "|(?:異なる|様々な|さまざまな)(?:意見|見解|見方|考え)"
    "|(?:[经經]常|常常|[频頻]繁地?|反[复覆]|多次)被?(?:提[到及]|[谈談][到论論]|[讨討][论論]|[强強][调調])"
    "|(?:有|存在|哪些).*(?:不同|各[种種])的?(?:看法|[观觀][点點]|意[见見]|[态態]度|立[场場])"
)
_CJK_GENERIC = (
    f"{_CJK_PARTS}|{_CJK_POSSIBLE_PARTS}|{_CJK_SAY}|{_CJK_FREQUENCY}|どの|どう|如何|怎[么麼樣样]+"
    "|什[么麼][樣样]|哪些|[们們对對看中]|役割|影[响響]|作用"
)


def extract_topic(question: str) -> str:
    """Return the topic of a question without corpus-level wording.

    Empty if no topic is left.

    >>> extract_topic("Which guests discuss the role of failure in schools?")
    'failure schools?'
    >>> extract_topic("How often do they disagree?")
    ''
    >>> subject_terms(extract_topic("ゲストは教育についてどのように語っていますか"))
    ['教育']
    >>> subject_terms(extract_topic("嘉宾们如何看待教育？"))
    ['教育']
    """
    if re.search(_CJK, question):
        rest = CJK_CORPUS_PATTERN.sub(" ", re.sub(_CJK_GENERIC, " ", question))
        return rest if subject_terms(rest) else ""
    return " ".join(word for word in question.split() if not _generic_stems().issuperset(subject_terms(word)))


def detect_topic(question: str, *, force: bool = False) -> str | None:
    """Return the topic of a broad question.

    Empty for a corpus-level question, None for a specific one. force: treat every question as broad or corpus-level.

    >>> detect_topic("What do the guests say of tides?"), detect_topic("What are the main themes?")
    ('tides?', '')
    >>> detect_topic("Where is Osk?") is None
    True
    """
    if not question_terms(question) and not SINGLE_FACT_PATTERN.search(question):
        return ""
    if force:
        return extract_topic(question)
    return (extract_topic(question) or None) if is_broad(question) else None


def is_broad(question: str) -> bool:
    """Return whether a question is broad: about many documents, not one thing.

    Broad questions ask what parts or authors of the corpus say, how often, or which views are common.

    >>> [is_broad(f"What {rest}?") for rest in ("do guests say of tides", "do guests say of Osk", "is the tide")]
    [True, False, False]
    """
    if re.search(_CJK, question):
        return (
            bool(re.search(_CJK_BROAD, question))
            and not re.search(_CJK_NAME, question)
            and not SINGLE_FACT_PATTERN.search(re.sub(_CJK_PARTS, "", question))
        )
    if re.search(f"{_FACTOID_PATTERN}|{_FIRST_PERSON_PATTERN}", question) or contains_name(question):
        return False
    return _has_broad_words(frozenset(re.findall(r"[a-z]+", question.lower())), question.lower())


def contains_name(question: str) -> bool:
    """Return whether a Latin-script question contains a name or a year.

    A name is a capitalised word within the sentence. Acronyms do not count.

    >>> contains_name("What do guests say of AI and VR?"), contains_name("What do guests say of Osk?")
    (False, True)
    """
    return any(not re.fullmatch(_ACRONYM_PATTERN, match[0]) for match in re.finditer(_NAME_PATTERN, question))


def _has_broad_words(words: frozenset[str], question: str) -> bool:
    """Return whether the word classes combine as in a broad question."""
    has = {name: bool(words & class_words) for name, class_words in _word_classes().items()}
    speaks = has["say"] or not _stem_words(_SAY_VERBS).isdisjoint(subject_terms(question))
    past = bool(re.search(_PAST_PATTERN, question))
    yes_no = re.match(_ANY_PATTERN, question)
    contains = has["contain"] and (yes_no or any(has[name] for name in _NOUN_CLASSES))
    if has["parts"] and (speaks or yes_no or any(has[name] for name in ("frequent", "contain", *_NOUN_CLASSES))):
        return True
    if not past and (has["possible parts"] or has["people"]) and (speaks or contains):
        return True
    if has["views"] and (has["frequent"] or re.search(_ABOUT_PATTERN, question)):
        return True
    return not past and _asks_what_is_discussed(has, question, says=speaks)


def _asks_what_is_discussed(has: Mapping[str, bool], question: str, *, says: bool) -> bool:
    """Return whether a question asks what is discussed or often mentioned.

    Examples: `Which cures are discussed?`, `... often mentioned?`
    """
    plural = bool(re.search(_PLURAL_PATTERN, question))
    topical, frequent = plural and has["topics"], has["frequent"]
    passive = re.search(_DISCUSSED_PATTERN, question) or re.search(_PARTS_ABOUT_PATTERN, question)
    return bool(passive) or (topical and (frequent or says)) or (plural and frequent and has["discussed"])


@cache
def _word_classes() -> Mapping[str, frozenset[str]]:
    classes = {
        "parts": _CORPUS_PARTS,
        "possible parts": _POSSIBLE_PARTS,
        "people": _PEOPLE,
        "say": _SAY_VERBS,
        "contain": _CONTAIN_VERBS,
        "frequent": _FREQUENCY_WORDS,
    }
    classes |= {"views": _VIEW_NOUNS, "topics": _TOPIC_NOUNS, "discussed": _SAY_PARTICIPLES}
    return {name: frozenset(words.split()) for name, words in classes.items()}


@cache
def _stem_words(words: str) -> frozenset[str]:
    return frozenset(subject_terms(words))


@cache
def _generic_stems() -> frozenset[str]:
    """Return the stems of all words that are no topic."""
    classes = (
        CORPUS_WORDS,
        _CORPUS_PARTS,
        _POSSIBLE_PARTS,
        _SAY_VERBS,
        _CONTAIN_VERBS,
        _FREQUENCY_WORDS,
        _VIEW_NOUNS,
        _TOPIC_NOUNS,
        _SAY_PARTICIPLES,
        _GENERIC_WORDS,
    )
    return frozenset(subject_terms(" ".join(classes)))
