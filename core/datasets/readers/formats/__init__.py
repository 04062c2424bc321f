"""The formats that can be read: one module each, here or in the folder of a framework or an extension.

Other modules use only the ``FORMAT`` of a module.
"""

from core import paths

__path__ += [str(folder / "formats") for folder in paths.extensions()]
__path__ += [
    str(folder)
    for package in (paths.ROOT / "core", *paths.extensions())
    for folder in sorted(package.glob("frameworks/*/formats"))
]
