"""lines of input -> a conversation: questions, answers and slash commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import TextIOWrapper
from unicodedata import normalize

from kumihimo.app.catalogue import METHODS
from kumihimo.app.facade import Kumihimo
from kumihimo.app.snapshot import Snapshot, get_method
from kumihimo.cli import terminal
from kumihimo.core.context import Answer
from kumihimo.core.errors import ItemFailed, KumiError, SettingsError, describe_unknown
from kumihimo.llm.budget import Caps

GREETING = "Ask a question. /help lists the commands, Ctrl-D quits."


@dataclass(slots=True)
class Repl:
    """A conversation with one index.

    With a chat model, questions may refer to earlier ones.

    show: prints an answer instead of the terminal view. suggest: follow-up questions after each answer.
    """

    kumi: Kumihimo
    method: str
    filter: str
    caps: Caps
    show: Callable[[Snapshot, Answer], None] | None = None
    answers: list[Answer] = field(default_factory=list)
    suggest: bool = False

    def run(self) -> int:
        """Read lines until the input ends; return the number of failed questions.

        An error is printed, and the conversation goes on. Raises SettingsError without standard input.
        """
        if sys.stdin is None:
            raise SettingsError("there is no question and no standard input: give a question")
        with self.kumi.snapshot():
            pass  # raises at once if there is no index
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
        with self.kumi.snapshot() as snapshot:
            suggester = snapshot.followup_suggester(self.caps) if self.suggest else None
            ask_question = partial(
                snapshot.ask, question, self.method, filter=self.filter, history=self.answers, caps=self.caps
            )
            if self.show:
                answer, followup_error = add_followups(ask_question(), suggester)
                self.show(snapshot, answer)
            else:
                if not _is_interactive():  # piped input is not visible otherwise
                    print(f"> {question}")
                with terminal.print_stream() as on_token:
                    answer = ask_question(on_token=on_token)
                answer, followup_error = add_followups(answer, suggester)
                terminal.show_sources(answer, snapshot.trace, remark=not self.answers)
                terminal.show_search_notes(snapshot, answer.context, self.filter)
                if not _is_interactive():
                    print()
        self.answers.append(answer)
        if followup_error:
            raise followup_error

    def _run_command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        if name not in SLASH_COMMANDS:
            raise SettingsError(f"{describe_unknown('command', name, SLASH_COMMANDS)}; `/help` lists them")
        SLASH_COMMANDS[name][1](self, argument.strip())

    def set_method(self, argument: str) -> None:
        if argument:
            get_method(argument)
            self.method = argument
        with self.kumi.snapshot() as snapshot:
            print(f"Searching by {self.method or snapshot.default_method()}. Available: {', '.join(METHODS)}.")

    def set_filter(self, argument: str) -> None:
        if argument:
            with self.kumi.snapshot() as snapshot:
                count = len(snapshot.matching_documents(argument))
        self.filter = argument
        print(f"Asking only documents that match, {count:,}: {argument}" if argument else "Asking all documents.")

    def show_evidence(self, _: str) -> None:
        if not self.answers:
            raise SettingsError("nothing has been asked yet: ask something first")
        with self.kumi.snapshot() as snapshot:
            terminal.show_evidence(self.answers[-1].context, snapshot.trace)

    def show_followups(self, _: str) -> None:
        if not self.answers:
            raise SettingsError("nothing has been asked yet: ask something first")
        with self.kumi.snapshot() as snapshot:
            answer = snapshot.followup_suggester(self.caps)(self.answers[-1])
        terminal.show_followups(answer)
        if not answer.followups:
            print("No follow-up questions.")

    def forget_history(self, _: str) -> None:
        self.answers.clear()
        print("The next question stands alone.")

    def leave(self, _: str) -> None:
        raise EOFError

    def show_help(self, _: str) -> None:
        terminal.show_rows((name, description) for name, (description, _) in SLASH_COMMANDS.items())


SLASH_COMMANDS: dict[str, tuple[str, Callable[[Repl, str], None]]] = {
    "/method": ("set the retrieval method: /method bm25; without a name: show it", Repl.set_method),
    "/filter": ("set the document filter: /filter date >= 2024; without a filter: all documents", Repl.set_filter),
    "/sources": ("show the evidence of the last answer", Repl.show_evidence),
    "/suggest": ("suggest follow-up questions (one model call)", Repl.show_followups),
    "/new": ("forget the history: the next question stands alone", Repl.forget_history),
    "/help": ("list the commands", Repl.show_help),
    "/quit": ("quit, as Ctrl-D does", Repl.leave),
}


def add_followups(answer: Answer, suggester: Callable[[Answer], Answer] | None) -> tuple[Answer, ItemFailed | None]:
    """Return the answer with follow-up questions, or the error instead.

    An error there leaves the answer itself valid.
    """
    if suggester is None:
        return answer, None
    try:
        return suggester(answer), None
    except ItemFailed as failure:
        return answer, failure


def _is_interactive() -> bool:
    """Return whether a person types and reads."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _read_lines() -> Iterator[str]:
    with suppress(ImportError):
        import readline  # noqa: F401 (arrow keys and history)
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
            print("\n(Ctrl-D quits.)")
