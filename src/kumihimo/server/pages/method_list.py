"""a snapshot -> the methods as a person chooses among them."""

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.json_values import Json, method_json
from kumihimo.app.opened.catalogue import missing_tables


def list_methods(snapshot: Snapshot) -> list[Json]:
    """Return the methods with their settings.

    usable: no model is missing. built: its tables are there.
    """
    default = snapshot.default_method()
    return [
        {
            **method_json(name, method),
            "name": name,
            "default": name == default,
            "usable": "llm" not in method.ports
            or "llm" in method.optional_ports
            or snapshot.models.chat(name) is not None,
            "built": not missing_tables(snapshot.db, snapshot.catalogue, name),
        }
        for name, method in snapshot.catalogue.methods.items()
    ]
