"""an error of the system -> a line that says what happened, where, and what to do."""

import errno

from kumihimo.app.facade import StorageError
from kumihimo.text.translation import translate

_FULL = "the disk is full: free some room on it, and run the same command again"
_FULL_CODES = (errno.ENOSPC, errno.EDQUOT)
_REMEDIES = {
    errno.EACCES: "check that you may read and write it",
    errno.EPERM: "check that you may read and write it",
    errno.EROFS: "use an index in a folder that you may write to, --index",
    errno.EMFILE: "close files, or raise the limit, `ulimit -n`",
    errno.EIO: "the disk may be damaged",
}


def describe_failure(error: OSError | StorageError) -> str:
    """Return a line on the error, its place and its remedy.

    >>> describe_failure(OSError(errno.EACCES, "Permission denied", "notes/a.md"))
    'notes/a.md: Permission denied: check that you may read and write it'
    """
    if isinstance(error, OSError):
        what = error.strerror or str(error) or type(error).__name__
        remedy = _FULL if error.errno in _FULL_CODES else _REMEDIES.get(error.errno or 0, "")
        return ": ".join(filter(None, (error.filename, translate(what), translate(remedy))))
    if "full" in str(error):
        return f"{error}: {_FULL}"
    return f"the database of the index or of its cache: {error}: check that you may write to its folder"
