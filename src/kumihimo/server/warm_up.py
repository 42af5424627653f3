"""a workspace -> what its first questions would wait for: packages, weights, vectors."""

import logging
from importlib import import_module

from kumihimo.app.browse.json_values import evidence_json
from kumihimo.app.facade import Kumihimo
from kumihimo.app.processes.question_process import Request
from kumihimo.app.processes.question_room import QuestionRoom, needs_no_model
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import KumiError
from kumihimo.server.workspace import Workspace

_QUESTION = "Who wrote the first letter about the harbour?"  # any question with words does
log = logging.getLogger("kumihimo")


def warm_up(workspace: Workspace) -> None:
    """Load what the first questions need.

    Many who begin at the same time would wait for each other. What fails here fails for them too, with a message.
    """
    import_module("jinja2")
    for served in workspace.indexes.values():
        try:
            _warm_up_index(served.kumi, served.questions.room)
        except (KumiError, OSError) as error:
            log.info("the index %s is not ready: %s", served.name, error)


def _warm_up_index(kumi: Kumihimo, room: QuestionRoom | None) -> None:
    """Ask by the default method, if that needs no model."""
    if kumi.models.chat("answer"):
        import_module("openai")
    if not kumi.store.exists():
        return
    with kumi.snapshot() as snapshot:
        if not needs_no_model(snapshot, "", {}, is_answer=False):
            return
        if room:
            context = room.run(Request("retrieve", _QUESTION, "", {}), CancelToken())
        elif needs_no_model(snapshot, "", {}, is_answer=True):
            context = snapshot.ask(_QUESTION).context
        else:
            context = snapshot.retrieve(_QUESTION)
        evidence_json(snapshot, _QUESTION, context)
