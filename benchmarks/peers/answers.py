"""a prompt of any of the libraries -> its kind, and a reply in the form that this library parses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.instant import FILL, REPORT, InstantRegistry
from benchmarks.peers.extraction import Extraction, Extractor, find_names
from kumihimo.core.digests import hash_parts
from kumihimo.text.tokens import subject_terms

ANSWER = " ".join([FILL] * 6)
TEXTS = (  # how each library encloses the text that it wants extracted
    re.compile(r"---Input Text---\n```\n(.*?)\n```\n\n---Output---", re.DOTALL),
    re.compile(r"-Real Data-\n#+\nEntity_types: [^\n]*\nText: (.*?)\n#+\nOutput:", re.DOTALL),
    re.compile(r"\*\*Document\*\*:\n(.*?)\n<<DOCUMENT_END>>", re.DOTALL),
    re.compile(r"Text:\n<text>\n(.*?)\n</text>", re.DOTALL),
)
QUESTIONS = (  # and a question
    re.compile(r"User Query: (.*?)\n\n---Output---", re.DOTALL),
    re.compile(r"-INPUT-\nQuery: (.*?)\nOutput:", re.DOTALL),
)
Messages = Sequence[dict[str, Any]]


def _last_match(patterns: Sequence[re.Pattern[str]], text: str) -> str:
    """Return the last match of the first pattern that matches."""
    matches = ([found[1] for found in pattern.finditer(text)] for pattern in patterns)
    return next(found[-1] for found in matches if found)


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages of a request, joined, and the last one."""

    all: str
    last: str
    extractor: Extractor

    def text(self) -> str:
        """Return the text to be extracted, of the last message that has one."""
        return _last_match(TEXTS, self.all)

    def question(self) -> str:
        return _last_match(QUESTIONS, self.all)

    def extraction(self, *, missing: bool = False) -> Extraction:
        return self.extractor.extract_missing(self.text()) if missing else self.extractor.extract(self.text())


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of prompt: words of the last message, words of any message, and how to reply."""

    kind: str
    last: str
    all: str
    reply: Callable[[Prompt], str]


def _lightrag(found: Extraction) -> str:
    lines = [f"entity<|#|>{name}<|#|>{kind}<|#|>{text}" for name, kind, text in found.entities]
    lines += [f"relation<|#|>{a}<|#|>{b}<|#|>talk, work<|#|>{text}" for a, b, text in found.relations]
    return "\n".join([*lines, "<|COMPLETE|>"])


def _graphrag(found: Extraction) -> str:
    """Return records as graphrag and nano-graphrag parse them."""
    lines = [f'("entity"<|>{name.upper()}<|>{kind.upper()}<|>{text})' for name, kind, text in found.entities]
    lines += [f'("relationship"<|>{a.upper()}<|>{b.upper()}<|>{text}<|>7)' for a, b, text in found.relations]
    return "\n##\n".join(lines) + "\n<|COMPLETE|>"


def _fast(found: Extraction) -> str:
    entities = [{"name": name.upper(), "type": kind, "desc": text} for name, kind, text in found.entities]
    relations = [{"source": a.upper(), "target": b.upper(), "desc": text} for a, b, text in found.relations]
    return json.dumps({"entities": entities, "relationships": relations, "other_relationships": []})


def _kumihimo(found: Extraction) -> str:
    lines = [f"entity<|>{name}<|>{kind}<|>{text}" for name, kind, text in found.entities]
    lines += [f"relation<|>{a}<|>{b}<|>{text}<|>talk, work<|>7" for a, b, text in found.relations]
    return "\n".join([*lines, "END"])


def _report(prompt: Prompt) -> str:
    """Return a report with exactly what graphrag and nano-graphrag ask for."""
    report = json.loads(_own_report(prompt))
    findings = [{name: finding[name] for name in ("summary", "explanation")} for finding in report["findings"]]
    names = ("title", "summary", "rating", "rating_explanation")
    return json.dumps({name: report[name] for name in names} | {"findings": findings})


def _own_report(prompt: Prompt) -> str:
    """Return a report of Kumihimo: the same, with sources."""
    return REPORT.replace("What they talk about", f"What they talk about, {hash_parts(prompt.all)}")


def _keywords(prompt: Prompt) -> str:
    """Return the names of a question as low-level keywords, its other words as high-level ones."""
    question = prompt.question()
    names = find_names(question)
    terms = [term for term in dict.fromkeys(subject_terms(question)) if term not in " ".join(names).casefold()]
    return json.dumps({"high_level_keywords": terms[:5] or names, "low_level_keywords": names or terms[:5]})


def _query_entities(prompt: Prompt) -> str:
    names = find_names(prompt.question())
    return json.dumps({"named": names, "generic": list(dict.fromkeys(subject_terms(prompt.question())))[:5]})


def _points(_: Prompt) -> str:
    points = [{"description": f"{FILL} [Data: Reports ({n})]", "score": 80 - 10 * n} for n in range(5)]
    return json.dumps({"points": points})


def _follow_up(prompt: Prompt) -> str:
    """Return an answer of DRIFT with three more questions; they differ from prompt to prompt."""
    terms = sorted(set(re.findall(r"[^\W\d_]{6,}", prompt.last))) or ["words"]
    start = int(hash_parts(prompt.all), 16)
    asked = [f"What is said of {terms[(start + n * 7919) % len(terms)]}?" for n in range(3)]
    name = "intermediate_answer" if "intermediate_answer" in prompt.all else "response"
    return json.dumps({name: ANSWER, "score": 60, "follow_up_queries": asked})


def _missing(write: Callable[[Extraction], str]) -> Callable[[Prompt], str]:
    return lambda prompt: write(prompt.extraction(missing=True))


def _found(write: Callable[[Extraction], str]) -> Callable[[Prompt], str]:
    return lambda prompt: write(prompt.extraction())


FORMS = (  # the first that fits
    Form("glean", "Based on the last extraction task", "---Input Text---", _missing(_lightrag)),
    Form("extract", "---Input Text---", "entity<|#|>", _found(_lightrag)),
    Form("keywords", "high_level_keywords", "-level", _keywords),
    Form("extract", "<<DOCUMENT_END>>", "other_relationships", _found(_fast)),
    Form("keywords", "-INPUT-\nQuery: ", "", _query_entities),
    Form("summarise", "grouped_facts", "", lambda _: json.dumps({"grouped_facts": []})),
    Form("summarise", "\nCurrent:\n", "Updated:", lambda _: json.dumps({"description": " ".join([FILL] * 3)})),
    Form("answer", '"Sources" list contains raw text', "", lambda _: json.dumps({"answer": ANSWER})),
    Form("glean", "were missed in the last extraction", "-Real Data-", _missing(_graphrag)),
    Form("glean", "may have still been missed", "", lambda _: "N"),
    Form("extract", "-Real Data-", '("entity"', _found(_graphrag)),
    Form("summarise", "Description List:", "", lambda _: " ".join([FILL] * 3)),
    Form("report", "<impact_severity_rating>", "", _report),
    Form("map", "", '"points": [', _points),
    Form("drift", "", "follow_up_queries", _follow_up),
    Form("summarise", "", "several descriptions of the same thing", lambda _: " ".join([FILL] * 3)),
    Form("glean", "are still missing", "<|>NAME<|>", _missing(_kumihimo)),
    Form("extract", "", "<|>NAME<|>", _found(_kumihimo)),
    Form("report", "findings", "JSON schema:\n", _own_report),
)


@dataclass(slots=True)
class Replier:
    """The model: a prompt -> its kind and a reply.

    own: replies to what else Kumihimo asks. Any other prompt is one for an answer.
    """

    extractor: Extractor
    own: InstantRegistry

    def reply(self, messages: Messages) -> tuple[str, str]:
        contents = [_content(message) for message in messages]
        prompt = Prompt("\n\n".join(contents), contents[-1], self.extractor)
        for form in FORMS:
            if form.last in prompt.last and form.all in prompt.all:
                return form.kind, form.reply(prompt)
        if "JSON schema:\n" in prompt.all:
            return "other", self.own.answer(prompt.all)
        return "answer", ANSWER


def _content(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
