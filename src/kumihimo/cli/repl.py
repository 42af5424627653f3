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
from kumihimo.app.snapshot import Snapshot, get_method
from kumihimo.cli import terminal
from kumihimo.core.context import Answer
from kumihimo.core.errors import ItemFailed, KumiError, SettingsError, describe_unknown
from kumihimo.llm.budget import Caps
from kumihimo.methods import METHODS

GREETING = "Ask what you want to know. /help tells what else there is, Ctrl-D leaves."


@dataclass(slots=True)
class Repl:
    """A conversation with one index. Later questions may point back to earlier ones, where a chat model is set."""

    kumi: Kumihimo
    method: str
    filter: str
    caps: Caps
    show: Callable[[Snapshot, Answer], None] | None = None  # instead of showing them to a person
    answers: list[Answer] = field(default_factory=list)
    suggest: bool = False  # after each answer, what to ask next

    def run(self) -> int:
        """Until the lines end; gives how many questions failed. What goes wrong is told, and it goes on."""
        if sys.stdin is None:
            raise SettingsError("there is no question, and nothing to read one from: say one")
        with self.kumi.snapshot():
            pass  # where there is no index, it is said at once
        if _is_interactive():
            print(GREETING)
        failed = 0
        for line in filter(None, map(str.strip, _read_lines())):
            try:
                if normalize("NFKC", line[0]) == "/":
                    self._run_command(normalize("NFKC", line))
                else:
                    self._ask(line)
            except EOFError:
                break
            except KumiError as error:
                failed += 1
                terminal.print_error(str(error) if _is_interactive() else f"{line}: {error}")
            except KeyboardInterrupt:
                print("\n(Stopped.)")
        return 0 if _is_interactive() else failed

    def _ask(self, question: str) -> None:
        with self.kumi.snapshot() as reading:
            suggester = reading.followup_suggester(self.caps) if self.suggest else None
            asked = partial(
                reading.ask, question, self.method, filter=self.filter, history=self.answers, caps=self.caps
            )
            if self.show:
                answer, failed = add_followups(asked(), suggester)
                self.show(reading, answer)
            else:
                if not _is_interactive():  # so that one sees what was asked
                    print(f"> {question}")
                with terminal.print_stream() as hear:
                    answer = asked(on_token=hear)
                answer, failed = add_followups(answer, suggester)
                terminal.show_sources(answer, reading.trace, remark=not self.answers)
                terminal.show_search_notes(reading, answer.context, self.filter)
                if not _is_interactive():
                    print()
        self.answers.append(answer)
        if failed:
            raise failed

    def _run_command(self, line: str) -> None:
        name, _, said = line.partition(" ")
        if name not in SLASH_COMMANDS:
            raise SettingsError(f"{describe_unknown('command', name, SLASH_COMMANDS)}; `/help` tells what each does")
        SLASH_COMMANDS[name][1](self, said.strip())

    def set_method(self, said: str) -> None:
        if said:
            get_method(said)
            self.method = said
        with self.kumi.snapshot() as reading:
            print(f"Searching by {self.method or reading.default_method()}. There are {', '.join(METHODS)}.")

    def set_filter(self, said: str) -> None:
        if said:
            with self.kumi.snapshot() as reading:
                count = len(reading.matching_documents(said))
        self.filter = said
        print(f"Asking the documents of which this holds, {count:,}: {said}" if said else "Asking all documents.")

    def show_evidence(self, _: str) -> None:
        if not self.answers:
            raise SettingsError("nothing has been asked yet: ask something first")
        with self.kumi.snapshot() as reading:
            terminal.show_evidence(self.answers[-1].context, reading.trace)

    def show_followups(self, _: str) -> None:
        if not self.answers:
            raise SettingsError("nothing has been asked yet: ask something first")
        with self.kumi.snapshot() as reading:
            found = reading.followup_suggester(self.caps)(self.answers[-1])
        terminal.show_followups(found)
        if not found.followups:
            print("Nothing that the evidence leaves open.")

    def forget_history(self, _: str) -> None:
        self.answers.clear()
        print("The next question stands alone.")

    def leave(self, _: str) -> None:
        raise EOFError

    def show_help(self, _: str) -> None:
        terminal.show_rows((name, told) for name, (told, _) in SLASH_COMMANDS.items())


SLASH_COMMANDS: dict[str, tuple[str, Callable[[Repl, str], None]]] = {
    "/method": ("how to search from now on: /method bm25; alone: how it is done now", Repl.set_method),
    "/where": ("which documents to ask from now on: /where date >= 2024; alone: all", Repl.set_filter),
    "/sources": ("the evidence that the last answer was made from", Repl.show_evidence),
    "/suggest": ("questions you could ask next, by one call of the model", Repl.show_followups),
    "/new": ("forget what was asked, so that nothing points back to it", Repl.forget_history),
    "/help": ("this list", Repl.show_help),
    "/quit": ("leave, as Ctrl-D does", Repl.leave),
}


def add_followups(answer: Answer, suggester: Callable[[Answer], Answer] | None) -> tuple[Answer, ItemFailed | None]:
    """With what to ask next, if that is wanted; or why there is nothing, for the answer itself stands."""
    if suggester is None:
        return answer, None
    try:
        return suggester(answer), None
    except ItemFailed as failure:
        return answer, failure


def _is_interactive() -> bool:
    """Whether a person types, and sees what comes."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _read_lines() -> Iterator[str]:
    with suppress(ImportError):
        import readline  # noqa: F401 (arrow keys and earlier lines)
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    while True:
        try:
            yield input("> " if _is_interactive() else "")
        except EOFError:
            if _is_interactive():
                print()
            return
        except KeyboardInterrupt:
            print("\n(Ctrl-D leaves.)")
