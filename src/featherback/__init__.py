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

# public name -> the module that has it; a module itself is in none
_LAZY: dict[str, str] = {
    **dict.fromkeys(("errors", "inertia", "models"), ""),
    **dict.fromkeys(("Model", "load"), "model"),
    **{name: "errors" for name in __all__ if name.endswith("Error")},
    **dict.fromkeys(("Contacts", "Gradient", "GradientReport", "Rollout"), "sim"),
    **dict.fromkeys(("Simulator", "Status", "check_gradients"), "sim"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(
            f"module 'featherback' has no attribute {name!r}; see dir(featherback)."
        )
    module = importlib.import_module(f"featherback.{_LAZY[name] or name}")
    value = getattr(module, name) if _LAZY[name] else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
