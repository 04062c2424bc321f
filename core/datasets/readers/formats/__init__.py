"""The formats that can be read, one module each, here, in a framework's folder or in an extension's.

A module's ``FORMAT`` is all that others use of it.
"""

from core import paths

__path__ += [str(folder / "formats") for folder in paths.extensions()]
__path__ += [
    str(folder)
    for room in (paths.ROOT / "core", *paths.extensions())
    for folder in sorted(room.glob("frameworks/*/formats"))
]
