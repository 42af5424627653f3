"""a question -> why it cannot be asked, if so."""

from kumihimo.core.errors import SettingsError

MAX_QUESTION_CHARS = 10_000


def question_problem(question: str) -> str:
    """Return why a question cannot be asked; empty if it can."""
    if not question.strip():
        return "the question is empty: write what you want to know"
    if len(question) > MAX_QUESTION_CHARS:
        return (
            f"the question has {len(question):,} characters, and {MAX_QUESTION_CHARS:,} is the limit: "
            "ask more briefly, and put long texts into documents"
        )
    return ""


def check_question(question: str) -> None:
    """Raise SettingsError if the question cannot be asked."""
    if problem := question_problem(question):
        raise SettingsError(problem)
