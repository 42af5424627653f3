"""lines of input -> a conversation: questions, answers and slash commands."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import Any
from unicodedata import normalize

from kumihimo.app.ask.query import LENGTHS, Length, check_length
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.catalogue import AUTO
from kumihimo.cli import printing, terminal
from kumihimo.cli.translated_help import suggest_language
from kumihimo.core.answer import Answer
from kumihimo.core.errors import ItemFailed, KumiError, SettingsError, describe_unknown
from kumihimo.llm.budget import Caps
from kumihimo.text.translation import translate

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
    show: Callable[[Answer], None] | None = None
    answers: list[Answer] = field(default_factory=list)
    suggest: bool = False
    length: Length | None = None

    def run(self) -> int:
        """Read lines until the input ends; return the number of failed questions.

        An error is printed, and the conversation goes on. Raises SettingsError if a pipe brings no line.
        """
        with self.kumi.snapshot():
            pass  # raises at once if there is no index
        if _is_interactive():
            printing.print_message(GREETING)
        failed, line = 0, ""
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
                message = translate(str(error))
                printing.print_error(message if _is_interactive() else f"{line}: {message}")
            except KeyboardInterrupt:
                printing.print_message("\n(Stopped.)")
        if not line and not _is_interactive():
            raise SettingsError("there is no question and no standard input: give a question")
        return 0 if _is_interactive() else failed

    def _ask(self, question: str) -> None:
        suggest_language(question)
        with self.kumi.snapshot(self.method) as whole:
            snapshot = whole.narrowed(self.filter)
            if not self.show and not _is_interactive():  # piped input is not visible otherwise
                printing.print_text(f"> {question}")
            search: dict[str, Any] = {"explain": True, "length": self.length, "history": self.answers}
            answer, followup_error = ask_question(
                snapshot, question, self.method, self.caps, quiet=bool(self.show), suggest=self.suggest, **search
            )
            if self.show:
                self.show(answer)
            else:
                terminal.show_answer(answer, remark=not self.answers)
                terminal.show_search_notes(snapshot, answer.context)
                if not _is_interactive():
                    printing.print_text()
        self.answers.append(answer)
        if followup_error:
            raise followup_error

    def _run_command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        if name not in SLASH_COMMANDS:
            raise SettingsError(f"{describe_unknown('command', name, SLASH_COMMANDS)}; `/help` lists them")
        SLASH_COMMANDS[name][1](self, argument.strip())

    def set_method(self, argument: str) -> None:
        with self.kumi.snapshot() as snapshot:
            if argument:
                self.method = "" if argument == AUTO else snapshot.method(argument).name
            available = ", ".join((AUTO, *snapshot.catalogue.methods))
            method = self.method or AUTO
            printing.print_message(f"Searching by {method}. Available: {available}.")

    def set_filter(self, argument: str) -> None:
        if argument:
            with self.kumi.snapshot() as snapshot:
                count = len(snapshot.matching_documents(argument))
        self.filter = argument
        printing.print_message(
            f"Asking only documents that match, {count:,}: {argument}" if argument else "Asking all documents."
        )

    def set_length(self, argument: str) -> None:
        if argument:
            self.length = check_length(argument)
        length = self.length or str(self.kumi.settings["answer"]["length"])
        printing.print_message(f"Length of answers: {length}. Available: {', '.join(LENGTHS)}.")

    def _last_answer(self) -> Answer:
        if not self.answers:
            raise SettingsError("nothing has been asked yet: ask something first")
        return self.answers[-1]

    def show_evidence(self, _: str) -> None:
        answer = self._last_answer()
        terminal.show_evidence(answer.context, answer.question, numbers=answer.source_numbers)

    def show_followups(self, _: str) -> None:
        answer = self._last_answer()
        with self.kumi.snapshot() as snapshot:
            answer = snapshot.followup_suggester(self.caps)(answer)
        terminal.show_followups(answer)
        if not answer.followups:
            printing.print_message("No follow-up questions.")

    def forget_history(self, _: str) -> None:
        self.answers.clear()
        printing.print_message("The next question stands alone.")

    def leave(self, _: str) -> None:
        raise EOFError

    def show_help(self, _: str) -> None:
        printing.show_rows((name, translate(description)) for name, (description, _) in SLASH_COMMANDS.items())


SLASH_COMMANDS: dict[str, tuple[str, Callable[[Repl, str], None]]] = {
    "/method": ("set the retrieval method: /method bm25; without a name: show it", Repl.set_method),
    "/filter": ("set the document filter: /filter date >= 2024; without a filter: all documents", Repl.set_filter),
    "/length": ("set the length of answers: /length full; without a name: show it", Repl.set_length),
    "/sources": ("show the evidence of the last answer", Repl.show_evidence),
    "/suggest": ("suggest follow-up questions (one model call)", Repl.show_followups),
    "/new": ("forget the history: the next question stands alone", Repl.forget_history),
    "/help": ("list the commands", Repl.show_help),
    "/quit": ("quit, as Ctrl-D does", Repl.leave),
}


def ask_question(
    snapshot: Snapshot,
    question: str,
    method: str,
    caps: Caps,
    *,
    quiet: bool,
    suggest: bool,
    explain: bool,
    **search: Any,
) -> tuple[Answer, ItemFailed | None]:
    """Return the answer, and the error of its follow-up questions.

    An error there leaves the answer itself valid. quiet: do not print the answer of a model as it arrives. explain: the
    evidence, also where it is cited; that of a model's answer always is.
    """
    suggester = snapshot.followup_suggester(caps) if suggest else None
    has_model = snapshot.models.chat("answer") is not None
    search["explain"] = explain or has_model
    stream = printing.print_stream() if has_model and not quiet else nullcontext()
    with stream as write, closing(printing.StatusLine(not quiet)) as status:
        on_token = status.before(write) if write else None
        answer = snapshot.ask(question, method, caps=caps, on_token=on_token, progress=status, **search)
    if not (search["explain"] or answer.citations):
        answer = snapshot.explained(answer)
    try:
        return (suggester(answer) if suggester else answer), None
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
                printing.print_text()
            return
        except KeyboardInterrupt:
            printing.print_message("\n(Ctrl-D quits.)")
