"""What may be said in a session: one object an act, one file a family. A file put here is known everywhere."""

from importlib import import_module
from pkgutil import iter_modules

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
