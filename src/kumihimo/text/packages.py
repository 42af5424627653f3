"""an installed package -> its files, or an error that names the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from kumihimo.core.errors import KumiError

TOKENIZER_FILE = "tokenizers/l2_supercat_tokenizer_config.json"


def find_wheel_file(name: str) -> Path:
    """Return the path of a file inside WordLlama's wheel.

    It does not import the package, which would import `requests`. Raises KumiError if the file is missing.
    """
    spec = find_spec("wordllama")
    path = Path(spec.origin).parent / name if spec and spec.origin else Path(name)
    if not path.exists():
        raise KumiError(f"{name} is missing from the installed wordllama: `pip install --force-reinstall wordllama`")
    return path


@contextmanager
def loading_extra(extra: str, packages: str) -> Iterator[None]:
    """Raise KumiError if an extra is there but cannot be loaded.

    packages: its packages. If the first is absent, the ModuleNotFoundError passes.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == packages.split()[0]:
            raise
        raise KumiError(
            f"the extra `{extra}` is installed and cannot be loaded ({type(error).__name__}: {error}): "
            f"`pip install --force-reinstall {packages}` mends it, `pip uninstall {packages}` removes it"
        ) from error
