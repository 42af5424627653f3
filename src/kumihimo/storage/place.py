"""a folder or postgresql://HOST/DB?schema=NAME -> where an index is, its store and its cache."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from kumihimo.core.errors import SettingsError
from kumihimo.core.network import DATABASE
from kumihimo.storage import Store
from kumihimo.storage.cache_database import CacheDatabase, SharedTables
from kumihimo.storage.sqlite import key_file, store
from kumihimo.storage.sqlite.cache_file import CacheFile

DEFAULT_FOLDER, DEFAULT_SCHEMA = ".kumi", "kumihimo"
CONFIG_VARIABLE = "KUMI_CONFIG"  # names the folder of kumi.toml, for an index in a database
_ADDRESS = re.compile(r"(?is)(?![./\\])(?:[\w+.-]{2,}:|.*:[^/\\:@]*@)")  # or may hold a password; not /a, ./a, C:\a
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """Where an index is: in a folder, or in a schema of PostgreSQL.

    folder: of the index; for PostgreSQL, of its files on this machine, such as uploads and triples. database: the
    address of the database, or empty. schema: of the database. cache_file: with the replies of models; None: they are
    in the index.

    >>> place = IndexPlace.at("postgresql://ada:secret@db:5433/notes?schema=harbour&sslmode=require")
    >>> place.database, place.schema, place.folder.name
    ('postgresql://ada:secret@db:5433/notes?sslmode=require', 'harbour', '.kumi.notes.harbour')
    >>> str(place)
    'postgresql://db:5433/notes?schema=harbour'
    """

    folder: Path
    database: str = field(default="", repr=False)  # its password is not for logs
    schema: str = ""
    cache_file: Path | None = None

    @classmethod
    def at(cls, place: "str | Path | IndexPlace", cache_file: str | Path | None = None) -> "IndexPlace":
        """Return the place that a text or path names.

        Raises SettingsError for the address of something else, or a wrong schema.
        """
        if cache_file:
            return replace(cls.at(place), cache_file=Path(cache_file))
        if isinstance(place, IndexPlace):
            return place
        text = str(place)
        if isinstance(place, Path) or not _ADDRESS.match(text):
            return cls(Path(place))
        DATABASE.parse_address(text)
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema = options.pop("schema", DEFAULT_SCHEMA)
        if not _SCHEMA.fullmatch(schema):
            raise SettingsError(f"schema={schema}: use small letters, digits and _, and begin with a letter")
        name = re.sub("[^0-9A-Za-z_-]", "_", parts.path.strip("/")) or "postgres"
        folder = _config_folder() / f".kumi.{name}.{schema}"
        return cls(folder, _join(parts, options.items()), schema)

    def __str__(self) -> str:
        """Return the folder, or the address without user, password and options."""
        if not self.database:
            return str(self.folder)
        parts = urlsplit(self.database)
        host = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
        return f"postgresql://{host}{parts.path}?schema={self.schema}"

    @property
    def address(self) -> str:
        """Return what opens the index in another process."""
        if not self.database:
            return str(self.folder.absolute())
        parts = urlsplit(self.database)
        return _join(parts, [*parse_qsl(parts.query), ("schema", self.schema)])

    @property
    def base(self) -> Path:
        """Return the folder of kumi.toml, which stored paths are relative to."""
        return self.folder.resolve().parent

    @property
    def name(self) -> str:
        """Return a short name of the index.

        >>> [IndexPlace(Path(folder)).name for folder in ("/work/reports/.kumi", "notes.kumi")]
        ['reports', 'notes']
        """
        if self.database:
            return self.schema
        folder = self.folder.resolve()
        return folder.parent.name if folder.name.startswith(".") else folder.stem

    @property
    def owns_cache(self) -> bool:
        """Return whether no other index can share the cache."""
        return self.cache_file is None or self.cache_file.resolve() == self.folder.resolve() / "cache.db"

    def open_cache(self) -> CacheDatabase:
        """Return the tables of the response cache."""
        if self.cache_file or not self.database:
            return CacheFile(self.cache_file or self.folder / "cache.db")
        from kumihimo.storage.postgres.cache_tables import CacheTables

        return CacheTables(self)

    def open_keys(self) -> SharedTables:
        """Return the keys of a server."""
        if not self.database:
            return key_file.KeyFile(self.folder / "keys.db")
        from kumihimo.storage.postgres.cache_tables import KEY_TABLES, SchemaTables

        return SchemaTables(self, f"the keys of {self}", KEY_TABLES)

    def open_store(self) -> Store:
        """Return the store of the index, which may be empty."""
        if not self.database:
            return store.SqliteStore(self.folder)
        from kumihimo.storage.postgres.store import PostgresStore

        return PostgresStore(self)


def _join(parts: SplitResult, options: Iterable[tuple[str, str]]) -> str:
    """Return the address of a database.

    `urlunsplit` drops the `//` of one without a host.
    """
    return f"postgresql://{parts.netloc}{parts.path}?{urlencode([*options])}".rstrip("?")


def _config_folder() -> Path:
    path = Path(os.environ.get(CONFIG_VARIABLE) or ".")
    return path.parent if path.suffix == ".toml" else path
