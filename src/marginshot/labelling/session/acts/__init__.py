"""The acts of a session: one class an act, one file a family. Every file put here is imported."""

from importlib import import_module
from pkgutil import iter_modules

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
