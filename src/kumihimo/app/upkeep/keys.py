"""an index folder -> its keys: who may use it on a server, in which role, and what each may see and spend."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_hex, token_urlsafe
from threading import Lock
from typing import Literal, get_args

from kumihimo.app.opened.open_index import IndexPlace, OpenIndex
from kumihimo.core.errors import BudgetExceeded, Cancelled, SettingsError, describe_unknown
from kumihimo.core.settings import Line, Setting
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Account, Admit, Budget, CacheLedger, Caps, Settle
from kumihimo.storage.key_store import KeyStore, StoredKey as StoredKey

Role = Literal["reader", "editor", "admin"]  # each may do what the ones before it may
ROLES: tuple[Role, ...] = get_args(Role)
TOKEN_PREFIX = "kumi_"
REQUESTS_PER_MINUTE = 120


def token_digest(token: str) -> bytes:
    """Return what is stored of a key: its SHA-256.

    A key is 256 random bits, so that a slow hash would add nothing.
    """
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def has_index(place: IndexPlace | Path) -> bool:
    """Return whether there is an index; keys may come first."""
    with closing(IndexPlace.at(place).open_store()) as store:
        return store.exists()


def create_key(
    places: Sequence[IndexPlace | Path],
    role: str,
    *,
    name: str = "",
    rights: str = "",
    daily_tokens: int | None = None,
    requests_per_minute: int = REQUESTS_PER_MINUTE,
) -> tuple[str, str]:
    """Store a new key; return its id and the key itself.

    The key is not stored, only its hash. rights: a filter; only documents that match are visible. Raises SettingsError
    for an unknown role, a malformed filter, a name of several lines, or a limit below 1.
    """
    from kumihimo.search.metadata_filter import parse_filter

    if role not in ROLES:
        raise SettingsError(describe_unknown("role", role, ROLES))
    Setting.of("name", Line, "").parse("key", name)
    if rights.strip():
        parse_filter(rights)
    if (daily_tokens is not None and daily_tokens < 1) or requests_per_minute < 1:
        raise SettingsError("the limits of a key are 1 or more: leave out --budget for no limit")
    token, id = TOKEN_PREFIX + token_urlsafe(32), token_hex(4)
    key = StoredKey(id, name, role, rights.strip(), daily_tokens, requests_per_minute, _now(), "")
    for place in {IndexPlace.at(place): place for place in places}:
        with closing(KeyStore(place.open_keys())) as store:
            store.add(key, token_digest(token))
    return id, token


def list_keys(place: IndexPlace | Path) -> list[StoredKey]:
    """Return the keys of an index, revoked ones too."""
    with closing(KeyStore(IndexPlace.at(place).open_keys())) as store:
        return store.all_keys()


def revoke_key(place: IndexPlace | Path, id: str) -> bool:
    """Revoke a key; return whether there is one with this id."""
    with closing(KeyStore(IndexPlace.at(place).open_keys())) as store:
        return store.revoke(id, _now())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(slots=True)
class IndexKeys:
    """The keys of one index, with the budget of each for today."""

    index: OpenIndex
    store: KeyStore
    today: Callable[[], str] = lambda: datetime.now(UTC).date().isoformat()
    owner: str = field(default_factory=lambda: token_hex(8))  # of the reservations of this process
    _budgets: dict[tuple[str, str], Budget] = field(default_factory=dict)  # key, day -> budget
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, index: OpenIndex) -> "IndexKeys":
        """Return the keys of an index."""
        store = KeyStore(index.place.open_keys())
        if store.database.exists():
            store.database.prepare()  # tables that an earlier version has not made
        return cls(index, store)

    def find(self, digest: bytes) -> StoredKey | None:
        """Return the valid key with this hash."""
        key = self.store.find(digest)
        return None if key is None or key.revoked else key

    def valid_ids(self) -> set[str]:
        """Return the ids of the keys that are not revoked."""
        return {key.id for key in self.store.all_keys() if not key.revoked}

    def budget(self, key: StoredKey) -> Budget:
        """Return the budget of a key for today.

        It is the same for all its requests in this process.
        """
        day = self.today()
        with self._lock:
            if (key.id, day) not in self._budgets:
                self._budgets = {other: budget for other, budget in self._budgets.items() if other[1] == day}
                ledger = _KeyLedger(self, key, day, CacheLedger(lambda: self.index.cache))
                self._budgets[key.id, day] = Budget(Caps(tokens=key.daily_tokens), ledger)
            budget = self._budgets[key.id, day]
        budget.total = self.store.usage(key.id, day)
        return budget

    def budget_of(self, id: str) -> Budget:
        """Return the budget of the key with this id.

        Raises Cancelled if it is revoked.
        """
        for key in self.store.all_keys():
            if key.id == id and not key.revoked:
                return self.budget(key)
        raise Cancelled(f"the key {id} was revoked")

    def close(self) -> None:
        self.store.close()


@dataclass(frozen=True, slots=True)
class _KeyLedger:
    """The `UsageLedger` of a key for a day: it counts what all processes spend, and tells the one of the index.

    No request begins that may go beyond the limit of the key.
    """

    keys: IndexKeys
    key: StoredKey
    day: str
    of_index: CacheLedger

    def reserve(self, account: Account, estimate: Usage, size: int, admit: Admit) -> Settle | None:
        store, limit = self.keys.store, self.key.daily_tokens

        def admit_below_limit(total: Usage, reserved: Usage) -> bool:
            if limit is not None and total.tokens + estimate.tokens > limit:
                needed, left = estimate.tokens, max(0, limit - total.tokens)
                raise BudgetExceeded(
                    f"capped: not asked, since it may need {needed:,} tokens, and the key has {left:,} left today"
                )
            return admit(total, reserved)

        reservation = store.reserve(self.key.id, self.day, estimate, self.keys.owner, admit_below_limit)
        if reservation is None:
            return None
        try:
            settle_of_index = self.of_index.record(account, estimate, size)
        except BaseException:  # nothing is sent
            store.settle(reservation, Usage())
            raise

        def settle(usage: Usage) -> None:
            store.settle(reservation, usage)
            settle_of_index(usage)

        return settle

    def record_saved(self, scope: str, model: str, usage: Usage) -> None:
        self.of_index.record_saved(scope, model, usage)
