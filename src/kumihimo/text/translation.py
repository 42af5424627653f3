"""a message in English, a language -> the message in that language, from the catalogue in `messages`."""

import json
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path

from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.core.installation import fit_commands

LANGUAGES = ("en", "ja", "zh", "zh-Hant")  # zh: simplified characters; zh-Hant: traditional ones
_language: ContextVar[str] = ContextVar("language", default="")  # that was chosen; empty: none
_system: ContextVar[str] = ContextVar("system language", default="en")
# t: translated if it is a message; m: has to be one; q: in quotation marks; n: a number
_FIELD = re.compile(r"\{(\d+)(?::([tmqn]))?\}")
_VALUES = {"q": r"(['\"].*?['\"])", "n": r"(\D?\d\S*)"}
_MIN_NESTED = 12  # characters without fields of a message within a message: it may also be a name
_CHINESE = "[吗嗎呢谁哪们們这這]|[什甚][么麼]|多少|[几幾][个個]|怎[么麼样樣]|是(?![非正認])"  # no words of Japanese
_TRADITIONAL_QUOTES = str.maketrans("“”‘’", "「」『』")
_KANA, _KANJI = "[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d]", "[\u3400-\u9fff]"  # compiled at the first use


def choose_language(name: str) -> None:
    """Use a language for messages, in this thread or task.

    name: `ja`, or a locale such as `ja_JP.UTF-8`. Raises SettingsError.
    """
    language = find_language(name)
    if not language:
        raise SettingsError(describe_unknown("language", name, (*LANGUAGES[:-1], "zh-TW")))
    _language.set(language)


def find_language(locale: str) -> str:
    """Return the language of messages for a locale; empty: none.

    >>> [find_language(name) for name in ("ja_JP.UTF-8", "zh-CN", "zh_TW.UTF-8", "zh-Hant-HK", "de", "C")]
    ['ja', 'zh', 'zh-Hant', 'zh-Hant', '', '']
    """
    language, *rest = re.split(r"[-_.@]", locale.lower())
    if language == "zh" and "hans" not in rest and {"hant", "tw", "hk", "mo"} & {*rest}:
        return "zh-Hant"
    return language if language in LANGUAGES else ""


def use_system_language(variables: Mapping[str, str]) -> None:
    """Use the language of the environment, where none is chosen.

    variables: of POSIX: LC_ALL, LC_MESSAGES, LANG.
    """
    names = (variables.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    _system.set(find_language(next(filter(None, names), "")) or "en")


def suggest_language(question: str, evidence: str = "") -> None:
    """Use the language of a question, unless one was chosen.

    evidence: as for `script_language`.
    """
    if not _language.get():
        _language.set(script_language(question, evidence))


def message_language() -> str:
    """Return the language of messages."""
    return _language.get() or _system.get()


def translate(text: str, language: str = "") -> str:
    """Return a message in a language, if the catalogue has it.

    text: an English message, its values filled in. language: by default the one that was chosen. A text that is not in
    the catalogue stays as it is, except for commands that install an extra.

    >>> translate("notes.txt: cannot tell the encoding; save the file as UTF-8", "ja")
    'notes.txt: 文字コードを判別できません。UTF-8 で保存し直してください'
    """
    language = language or message_language()
    if language == "en":
        return fit_commands(text)
    catalogue = _load_catalogue(language)
    found = catalogue.find(text) or "\n".join(catalogue.find_after_name(line) for line in text.split("\n"))
    return fit_commands(found)


def join_words(texts: Sequence[str], last: str = " and ") -> str:
    """Return a list as words: one, two and three.

    >>> join_words(["1 chunk"]), join_words(["1 document", "2 chunks", "3 entities"])
    ('1 chunk', '1 document, 2 chunks and 3 entities')
    """
    if message_language() != "en":
        return "、".join(texts)
    return last.join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def script_language(question: str, evidence: str = "") -> str:
    """Return the language of a question by its script.

    It is en, ja, zh (simplified) or zh-Hant (traditional). A question in kanji alone may be Japanese or Chinese. If all
    its characters are usual in Japanese, the script of the evidence decides.

    >>> [script_language(text) for text in ("誰が門を描きましたか。", "东门钥匙", "東門鑰匙", "Who?")]
    ['ja', 'zh', 'zh-Hant', 'en']
    >>> texts = "东门钥匙", "東門鑰匙", "合唱的人数是多少", "概括一下所有文档", "目的地"
    >>> [script_language(text, "かぎ") for text in texts]
    ['zh', 'ja', 'zh', 'zh', 'ja']
    """
    if question.isascii():
        return "en"
    letters = re.findall(_KANJI, question)
    if re.search(_KANA, question):
        return "ja"
    if not letters:
        return "en"
    kana, kanji = (len(re.findall(script, evidence)) for script in (_KANA, _KANJI))
    if kana > kanji / 10 and not re.search(_CHINESE, question) and all(map(_is_usual_in_japanese, letters)):
        return "ja"
    # GB 2312 has the simplified characters, Big5 the traditional ones.
    is_simplified = _count_encodable(question, "gb2312") >= _count_encodable(question, "big5")
    return "zh" if is_simplified else "zh-Hant"


def _is_usual_in_japanese(letter: str) -> bool:
    """Return whether Japanese has a character, and not only Chinese often.

    The first level of each standard has the characters in frequent use.
    """
    japanese, chinese = (letter.encode(encoding, "ignore") for encoding in ("shift_jis", "gb2312"))
    return b"" < japanese < b"\x98\x9f" or (japanese > b"" and not b"\xb0" <= chinese < b"\xd8")


def _count_encodable(text: str, encoding: str) -> int:
    """Return how many characters of the text the encoding has."""
    return sum(len(letter.encode(encoding, "ignore")) > 0 for letter in text)


@dataclass(frozen=True)
class _Template:
    """A message with fields {0}, {1}, and its translation."""

    text: str
    translation: str

    @cached_property
    def parts(self) -> list[str]:
        """Return the text between the fields."""
        return re.split(r"\{\d+\}", self.text)

    @cached_property
    def size(self) -> int:
        """Return the number of characters that are no fields."""
        return sum(map(len, self.parts))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        kinds = dict(_FIELD.findall(self.translation))
        fields = [_VALUES.get(kinds.get(str(n), ""), "(.*?)") for n in range(len(self.parts) - 1)]
        return re.compile(
            "".join(f"{re.escape(part)}{field}" for part, field in zip(self.parts, [*fields, ""], strict=True)), re.S
        )

    def fill(self, message: str, catalogue: "_Catalogue") -> str:
        """Return the translation of a message; empty: another message."""
        match = all(part in message for part in self.parts) and self.pattern.fullmatch(message)
        if not match:
            return ""
        values = list(match.groups())
        for number, kind in _FIELD.findall(self.translation):
            translated = catalogue.find(values[int(number)], _MIN_NESTED) if kind else ""
            if kind == "m" and not translated:
                return ""
            values[int(number)] = translated or values[int(number)]
        return _FIELD.sub(lambda field: values[int(field[1])], self.translation)


@dataclass(frozen=True)
class _Catalogue:
    """The translations of one language."""

    translations: dict[str, str]

    @cached_property
    def templates(self) -> list[tuple[str, _Template]]:
        """Return the messages with fields, the most specific first.

        Each comes after its longest part, which few other messages have.
        """
        found = [_Template(*pair) for pair in self.translations.items() if "{0}" in pair[0]]
        return [(max(each.parts, key=len), each) for each in sorted(found, key=lambda each: -each.size)]

    def find(self, text: str, least: int = 0) -> str:
        """Return the translation of a message; empty: none.

        least: characters that it has without its fields.
        """
        message = text.strip()
        similar = (each for part, each in self.templates if part in message and each.size >= least)
        filled = (translation for each in similar if (translation := each.fill(message, self)))
        translation = self.translations.get(message) or next(filled, "")
        if not message or not translation:
            return ""
        found = text.replace(message, translation, 1)
        return found.rstrip(" ") if translation.endswith("：") else found  # a full-width colon is as wide as a space

    def find_after_name(self, line: str) -> str:
        """Return a line in the language, or its part after `NAME: `."""
        name, colon, message = line.partition(": ")
        return self.find(line) or name + colon + (self.find(message, _MIN_NESTED) or message)


@cache
def _load_catalogue(language: str) -> _Catalogue:
    """Return the messages of a language.

    Those in traditional characters are made of the simplified ones by OpenCC, without the words for which we have
    better ones of Taiwan. Without the extra `zh` they stay simplified.
    """
    translations = _read_texts(language.partition("-")[0])
    if language != "zh-Hant" or not find_spec("opencc"):
        return _Catalogue(translations)
    from opencc import OpenCC

    words, convert = _read_texts(language), OpenCC("s2twp").convert
    known = re.compile(f"({'|'.join(map(re.escape, words))})")
    parts = {
        text: [words.get(part) or convert(part) for part in known.split(each)] for text, each in translations.items()
    }
    return _Catalogue({text: "".join(each).translate(_TRADITIONAL_QUOTES) for text, each in parts.items()})


def _read_texts(name: str) -> dict[str, str]:
    path = Path(__file__).parent / "messages" / f"{name}.json"
    texts: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return texts
