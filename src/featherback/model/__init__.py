"""Models: reading MJCF and URDF, checking them, and what the engine runs on."""

from featherback.model.load import load
from featherback.model.model import Model
from featherback.model.report import Notice

__all__ = ["Model", "Notice", "load"]
