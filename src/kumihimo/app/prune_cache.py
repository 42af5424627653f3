"""an index -> the cached replies that a new build would use; the others are deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kumihimo.app.build_cost import paid_changes, used_cache_keys
from kumihimo.app.prepare_build import prepare_build
from kumihimo.core.errors import ConsentRequired

if TYPE_CHECKING:
    from kumihimo.app.facade import Kumihimo


class RollBack(Exception):
    """A signal to leave a build and roll it back."""


def prune_cache(kumi: Kumihimo, *, wait: bool) -> int:
    """Delete cached replies without a use; return their number.

    Raises ConsentRequired if a model or a setting differs from that of the index.
    """
    used_keys: set[bytes] = set()
    with suppress(RollBack), kumi.store.write_transaction(wait=wait) as db:
        build = prepare_build(kumi, db, may_be_empty=True)
        if changes := paid_changes(build):
            raise ConsentRequired(f"{'; '.join(changes)}: run `kumi index` first, so that the replies in use are known")
        used_keys = used_cache_keys(build, kumi.cache)
        raise RollBack
    return kumi.cache.prune(used_keys)
