"""a path -> whether it leads elsewhere: a symbolic link, or a junction of Windows."""

from pathlib import Path
from stat import S_ISLNK

_JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT


def is_link(path: Path) -> bool:
    """Return whether a path is a symbolic link or a junction.

    A junction is a folder for `Path.is_symlink`, but may lead out of the folder that it is in, or back to it. It needs
    no rights to make one. A path that cannot be read is no link.
    """
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return False
    return S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION
