"""question -> the senses of discourse relations that an answer needs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kumihimo.core.errors import MalformedReply, UnparsableReply
from kumihimo.index.pdtb_senses import match_sense_label, parent_sense_labels, senses_by_name
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import Reply

PROMPT = Path(__file__).with_suffix(".md")
log = logging.getLogger("kumihimo")

# Cue words of questions in English, Japanese and Chinese, and the senses that an answer needs. The senses are broad: a
# question does not tell which passage is Arg1.
_CUES = (
    (
        ("cause", "pragmatic cause"),
        "why|how come|causes?|caused|reasons?|because|results?|effects?|consequences?|impact|led to|leads? to|happens",
        "なぜ|何故|どうして|理由|原因|結果|影響|せい|おかげ",
        "为什么|為什麼|为何|為何|原因|理由|结果|結果|影响|影響|后果|後果|导致|導致",
    ),
    (
        ("temporal",),
        "when|before|after|afterwards|until|since|during|meanwhile|next|what year|how long|what time",
        "いつ|前に|あと|その後|何年|何月|何日|何時|当時",
        "什么时候|什麼時候|何时|何時|之前|之后|之後|以前|以后|哪年|哪一年|几点|幾點|多久",
    ),
    (("instantiation",), "examples?|instances?|such as", "例えば|たとえば|例を|例は|具体例", "例如|比如|例子"),
    (
        ("condition", "pragmatic condition"),
        "if|conditions?|unless|in case|provided|depends?|requirements?",
        "もし|場合|条件|要件",
        "如果|假如|条件|條件|情况下|情況下",
    ),
    (
        ("comparison",),
        "differs?|differen[ct]e?s?|different|compared?|comparison|contrast|versus|vs|although|despite|unlike|but",
        "違い|違う|異な|比べ|比較|対照|にもかかわらず",
        "区别|區別|不同|相比|比较|比較|差异|差異|尽管|儘管",
    ),
    (
        ("alternative",),
        "instead|alternatives?|rather than|options?",
        "代わり|それとも|選択肢",
        "代替|还是|還是|选择|選擇",
    ),
    (("exception",), "except|exceptions?", "例外|除い|除く", "例外|除了"),
    (
        ("restatement",),
        "how|explain|details?|describe|mean|means|meaning|defined?|definition|what is|what are",
        "どのように|どうやって|どんな|詳しく|とは|説明|意味",
        "怎么|怎麼|怎样|怎樣|如何|解释|解釋|意思|是什么|是什麼",
    ),
)


def infer_senses(question: str, llm: LLM | None) -> tuple[str, ...]:
    """Return the sense labels that an answer to the question needs.

    The model thinks step by step and names senses in the last line (江上・福田, section 3.2.2). Without a model, or
    if the reply is unusable, the wording of the question decides.
    """
    if llm:
        try:
            return llm(
                render_prompt(PROMPT, senses="\n".join(_sense_outline()), question=question), parse=_parse_senses
            )
        except UnparsableReply as error:
            log.warning("discourse finds the senses by the words of the question: %s", error)
    return senses_by_cues(question)


def senses_by_cues(question: str) -> tuple[str, ...]:
    """Return the senses that the question's cue words ask for.

    >>> senses_by_cues("Why did the ferry wait?"), senses_by_cues("船はいつ出た"), senses_by_cues("Who wound the cord?")
    (('cause', 'pragmatic cause'), ('temporal',), ())
    """
    return tuple(label for cues, labels in _cue_patterns() if cues.search(question) for label in labels)


@cache
def _cue_patterns() -> list[tuple[re.Pattern[str], tuple[str, ...]]]:
    return [
        (re.compile(rf"\b(?:{english})\b|{japanese}|{chinese}", re.I | re.A), labels)
        for labels, english, japanese, chinese in _CUES
    ]


def _sense_outline() -> Iterator[str]:
    """Yield the senses, indented below their parents."""
    depth: dict[str, int] = {}
    for sense in senses_by_name().values():
        if sense.label:
            depth[sense.label] = 1 + max((depth[parent] for parent in parent_sense_labels(sense.label)), default=-1)
            yield f"{'  ' * depth[sense.label]}- {sense.label}: {sense.meaning}"


def _parse_senses(reply: Reply) -> tuple[str, ...]:
    """Return the senses in the last line of a reply.

    Raises MalformedReply if it names no sense and is not `none`.
    """
    lines = reply.text.splitlines()
    last_line = lines[-1].rpartition(":")[2] if lines else ""
    parts = re.split(r"[,;、，；]|\band\b", last_line)
    labels = tuple(dict.fromkeys(label for part in parts if (label := match_sense_label(part))))
    if not labels and last_line.strip(" .*`\"'").casefold() != "none":
        raise MalformedReply(
            "The last line of the reply has to hold names of the list, with commas between them, or none."
        )
    return labels
