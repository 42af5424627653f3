"""an index -> the methods that answer questions there."""

from kumihimo.app.facade import Kumihimo
from kumihimo.app.missing import missing_tables
from kumihimo.app.prepare_build import free_build
from kumihimo.storage import IndexTransaction


def usable_methods(kumi: Kumihimo) -> list[str]:
    """Return the methods that are built, or free to build.

    Methods that need a chat model are left out if none is set.
    """
    with kumi.snapshot() as snapshot:
        return [name for name in kumi.catalogue.methods if _is_usable(kumi, snapshot.db, name)]


def _is_usable(kumi: Kumihimo, db: IndexTransaction, name: str) -> bool:
    signature = kumi.catalogue.methods[name]
    if "llm" in signature.ports and "llm" not in signature.optional_ports and kumi.models.chat(name) is None:
        return False
    missing = missing_tables(db, kumi.catalogue, name)
    return not missing or (not kumi.store.is_read_only() and free_build(kumi, db, name, missing) is not None)
