"""The formats that can be read, one module each; a module's ``FORMAT`` is all that others use of it."""

from core import paths

__path__ += [str(folder / "formats") for folder in paths.extensions()]
