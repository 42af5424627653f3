"""lines somebody types -> a conversation: questions and their answers, and a few commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import TextIOWrapper
from unicodedata import normalize

from kumihimo.app.facade import Kumihimo
from kumihimo.app.snapshot import Reading, method
from kumihimo.cli import terminal
from kumihimo.core.context import Answer
from kumihimo.core.errors import ItemFailed, KumiError, SettingsError, unknown
from kumihimo.llm.budget import Caps
from kumihimo.methods import METHODS

HELLO = "Ask what you want to know. /help tells what else there is, Ctrl-D leaves."


@dataclass(slots=True)
class Talk:
    """A conversation with one index. Later questions may point back to earlier ones, where a chat model is set."""

    kumi: Kumihimo
    method: str
    where: str
    caps: Caps
    show: Callable[[Reading, Answer], None] | None = None  # instead of showing them to a person
    answers: list[Answer] = field(default_factory=list)
    suggest: bool = False  # after each answer, what to ask next

    def run(self) -> int:
        """Until the lines end; gives how many questions failed. What goes wrong is told, and it goes on."""
        if sys.stdin is None:
            raise SettingsError("there is no question, and nothing to read one from: say one")
        with self.kumi.reading():
            pass  # where there is no index, it is said at once
        if _somebody():
            print(HELLO)
        failed = 0
        for line in filter(None, map(str.strip, _lines())):
            try:
                if normalize("NFKC", line[0]) == "/":
                    self._command(normalize("NFKC", line))
                else:
                    self._ask(line)
            except EOFError:
                break
            except KumiError as error:
                failed += 1
                terminal.complain(str(error) if _somebody() else f"{line}: {error}")
            except KeyboardInterrupt:
                print("\n(Stopped.)")
        return 0 if _somebody() else failed

    def _ask(self, question: str) -> None:
        with self.kumi.reading() as reading:
            suggester = reading.suggester(self.caps) if self.suggest else None
            asked = partial(reading.ask, question, self.method, where=self.where, after=self.answers, caps=self.caps)
            if self.show:
                answer, failed = with_more(asked(), suggester)
                self.show(reading, answer)
            else:
                if not _somebody():  # so that one sees what was asked
                    print(f"> {question}")
                with terminal.speech() as hear:
                    answer = asked(hear=hear)
                answer, failed = with_more(answer, suggester)
                terminal.show_sources(answer, reading.trace, remark=not self.answers)
                terminal.explain(reading, answer.context, self.where)
                if not _somebody():
                    print()
        self.answers.append(answer)
        if failed:
            raise failed

    def _command(self, line: str) -> None:
        name, _, said = line.partition(" ")
        if name not in COMMANDS:
            raise SettingsError(f"{unknown('command', name, COMMANDS)}; `/help` tells what each does")
        COMMANDS[name][1](self, said.strip())

    def use(self, said: str) -> None:
        if said:
            method(said)
            self.method = said
        with self.kumi.reading() as reading:
            print(f"Searching by {self.method or reading.usual()}. There are {', '.join(METHODS)}.")

    def narrow(self, said: str) -> None:
        if said:
            with self.kumi.reading() as reading:
                count = len(reading.passing(said))
        self.where = said
        print(f"Asking the documents of which this holds, {count:,}: {said}" if said else "Asking all documents.")

    def sources(self, _: str) -> None:
        if not self.answers:
            raise SettingsError("nothing has been asked yet: ask something first")
        with self.kumi.reading() as reading:
            terminal.show_evidence(self.answers[-1].context, reading.trace)

    def more(self, _: str) -> None:
        if not self.answers:
            raise SettingsError("nothing has been asked yet: ask something first")
        with self.kumi.reading() as reading:
            found = reading.suggester(self.caps)(self.answers[-1])
        terminal.show_suggested(found)
        if not found.suggested:
            print("Nothing that the evidence leaves open.")

    def forget(self, _: str) -> None:
        self.answers.clear()
        print("The next question stands alone.")

    def leave(self, _: str) -> None:
        raise EOFError

    def help(self, _: str) -> None:
        terminal.show_rows((name, told) for name, (told, _) in COMMANDS.items())


COMMANDS: dict[str, tuple[str, Callable[[Talk, str], None]]] = {
    "/method": ("how to search from now on: /method bm25; alone: how it is done now", Talk.use),
    "/where": ("which documents to ask from now on: /where date >= 2024; alone: all", Talk.narrow),
    "/sources": ("the evidence that the last answer was made from", Talk.sources),
    "/suggest": ("questions you could ask next, by one call of the model", Talk.more),
    "/new": ("forget what was asked, so that nothing points back to it", Talk.forget),
    "/help": ("this list", Talk.help),
    "/quit": ("leave, as Ctrl-D does", Talk.leave),
}


def with_more(answer: Answer, suggester: Callable[[Answer], Answer] | None) -> tuple[Answer, ItemFailed | None]:
    """With what to ask next, if that is wanted; or why there is nothing, for the answer itself stands."""
    if suggester is None:
        return answer, None
    try:
        return suggester(answer), None
    except ItemFailed as failure:
        return answer, failure


def _somebody() -> bool:
    """Whether a person types, and sees what comes."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _lines() -> Iterator[str]:
    with suppress(ImportError):
        import readline  # noqa: F401 (arrow keys and earlier lines)
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    while True:
        try:
            yield input("> " if _somebody() else "")
        except EOFError:
            if _somebody():
                print()
            return
        except KeyboardInterrupt:
            print("\n(Ctrl-D leaves.)")
