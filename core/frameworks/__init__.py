"""The frameworks: the order in which agents speak. Each is one folder, here or in an extension, that yields events."""

from core import paths

__path__ += [str(folder / "frameworks") for folder in paths.extensions()]
