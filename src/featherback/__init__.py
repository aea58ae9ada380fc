"""Featherstone dynamics with backpropagation.

`import featherback` imports NumPy and the extension; everything else is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from featherback._core import isa

if TYPE_CHECKING:
    from featherback import errors, inertia, models
    from featherback.errors import (
        FeatherbackError,
        ModelError,
        ParameterError,
        ShapeError,
        WorldError,
    )
    from featherback.model import Model, load
    from featherback.sim import (
        Contacts,
        Gradient,
        GradientReport,
        Rollout,
        Simulator,
        Status,
        check_gradients,
    )

__version__ = "0.1.0"

__all__ = [
    "Contacts",
    "FeatherbackError",
    "Gradient",
    "GradientReport",
    "Model",
    "ModelError",
    "ParameterError",
    "Rollout",
    "ShapeError",
    "Simulator",
    "Status",
    "WorldError",
    "__version__",
    "check_gradients",
    "errors",
    "inertia",
    "isa",
    "load",
    "models",
]

# public name -> (module, attribute); an empty attribute is the module itself
_LAZY: dict[str, tuple[str, str]] = {
    "Contacts": ("featherback.sim", "Contacts"),
    "FeatherbackError": ("featherback.errors", "FeatherbackError"),
    "Gradient": ("featherback.sim", "Gradient"),
    "GradientReport": ("featherback.sim", "GradientReport"),
    "Model": ("featherback.model", "Model"),
    "ModelError": ("featherback.errors", "ModelError"),
    "ParameterError": ("featherback.errors", "ParameterError"),
    "Rollout": ("featherback.sim", "Rollout"),
    "ShapeError": ("featherback.errors", "ShapeError"),
    "Simulator": ("featherback.sim", "Simulator"),
    "Status": ("featherback.sim", "Status"),
    "WorldError": ("featherback.errors", "WorldError"),
    "check_gradients": ("featherback.sim", "check_gradients"),
    "errors": ("featherback.errors", ""),
    "inertia": ("featherback.inertia", ""),
    "load": ("featherback.model", "load"),
    "models": ("featherback.models", ""),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(
            f"module 'featherback' has no attribute {name!r}; see dir(featherback)."
        )
    module_name, attribute = _LAZY[name]
    module = importlib.import_module(module_name)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
