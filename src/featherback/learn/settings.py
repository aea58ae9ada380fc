"""Settings of the learners: one frozen dataclass each; nothing here needs PyTorch."""

from __future__ import annotations

import ast
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal

from featherback._checks import check_integer, shown
from featherback.errors import ParameterError

Contact = Literal["hard", "mujoco"]
MAX_SEED = 2**31 - 1
# by the end of a field's name: what a number may be
FRACTIONS = ("gamma", "trace_decay", "smoothing", "share")
POSITIVE = ("rate", "clip", "norm", "radius")


@dataclass(frozen=True)
class Settings:
    """What all learners have: the environment, the length of the run, files."""

    learner: ClassVar[str] = ""

    env: str = "Ant"
    """name of an environment of featherback.envs, or gym:ID for one of gymnasium's own"""
    contact: Contact | None = None
    """contact law; that of the environment when not given"""
    options: tuple[str, ...] = ()
    """options of the environment, each as name=value, such as links=5"""
    worlds: int = 64
    """environments that are stepped together"""
    steps: int = 1_000_000
    """length of the run: steps of the environment, all worlds counted"""
    seed: int = 0
    """seed of all random numbers"""
    hidden: tuple[int, ...] = (128, 64)
    """units of the hidden layers"""
    checkpoint_every: int = 50
    """iterations between checkpoints"""
    evaluate_every: int = 0
    """iterations between evaluations of the policy without noise; 0: none"""
    evaluation_episodes: int = 8
    """episodes of an evaluation"""

    def __post_init__(self) -> None:
        """Raise ParameterError for a value that is not allowed."""
        where = f"learn {self.learner}"
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "seed":
                check_integer(where, "seed", value, minimum=0, maximum=MAX_SEED)
            elif field.name in ("evaluate_every", "warmup", "samples"):
                check_integer(where, field.name, value, minimum=0)
            elif field.type == "int":
                check_integer(where, field.name, value)
            elif field.type == "float":
                _check_number(where, field.name, value)
        if not self.hidden:
            raise ParameterError(f"{where}: hidden is empty; name at least one layer.")
        for units in self.hidden:
            check_integer(where, "hidden", units)
        self.env_options()

    def env_options(self) -> dict[str, Any]:
        """Return the options of the environment by name, the contact law among them."""
        found: dict[str, Any] = {}
        for option in self.options:
            name, equals, text = option.partition("=")
            if not equals or not name.isidentifier():
                raise ParameterError(
                    f"learn {self.learner}: the option {option!r} of the environment has another "
                    'form than name=value; write it as "links=5".'
                )
            try:
                found[name] = ast.literal_eval(text)
            except (ValueError, SyntaxError):
                found[name] = text
        return found if self.contact is None else {**found, "contact": self.contact}

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in plain terms."""
        return {name: list(x) if isinstance(x, tuple) else x for name, x in asdict(self).items()}


def _check_number(where: str, name: str, value: Any) -> None:
    """Raise ParameterError for a number that is not finite or outside of its range."""
    finite = isinstance(value, (int, float)) and math.isfinite(value)
    if name.endswith(FRACTIONS):
        if not finite or not 0.0 <= value <= 1.0:
            raise ParameterError(f"{where}: {name} is {shown(value)}; it must be from 0 to 1.")
    elif name.endswith(POSITIVE):
        if not finite or value <= 0.0:
            raise ParameterError(f"{where}: {name} is {shown(value)}; it must be > 0.")
    elif not finite:
        raise ParameterError(f"{where}: {name} is {shown(value)}; it must be a finite number.")


@dataclass(frozen=True)
class PPO(Settings):
    """Proximal policy optimization: the return is estimated from samples, no gradient is used."""

    learner: ClassVar[str] = "ppo"

    rollout: int = 32
    """steps of every world between updates"""
    epochs: int = 5
    """passes over the samples of an iteration"""
    batch: int = 512
    """samples in one update"""
    learning_rate: float = 1e-3
    """step of Adam"""
    decay: bool = True
    """whether the learning rate falls linearly to zero over the run"""
    gamma: float = 0.99
    """discount of the return"""
    trace_decay: float = 0.95
    """lambda of the generalized advantage estimate"""
    ratio_clip: float = 0.2
    """change of an action's probability from which on nothing more is gained"""
    value_weight: float = 0.5
    """weight of the value's error in the loss"""
    entropy_weight: float = 0.0
    """weight of the entropy in the loss"""
    gradient_norm: float = 0.5
    """length to which a longer gradient is shortened"""
    log_std: float = -1.0
    """logarithm of the noise's standard deviation at the start; 1 is half an action's range"""


@dataclass(frozen=True)
class BPTT(Settings):
    """Backpropagation through whole episodes: the exact gradient of the return."""

    learner: ClassVar[str] = "bptt"

    env: str = "NLinkPendulum"
    """name of an environment of featherback.envs that has gradients"""
    worlds: int = 32
    """environments that are stepped together"""
    steps: int = 500_000
    """length of the run: steps of the environment, all worlds counted"""
    hidden: tuple[int, ...] = (64, 64)
    """units of the hidden layers"""
    horizon: int = 100
    """steps of an episode that count; an iteration is one episode in every world"""
    learning_rate: float = 3e-3
    """step of Adam; it falls linearly to a tenth over the run"""
    gamma: float = 1.0
    """discount of the return"""
    gradient_norm: float = 1.0
    """length to which a longer gradient is shortened"""
    log_std: float = -1.5
    """logarithm of the noise's standard deviation at the start, before squashing"""


@dataclass(frozen=True)
class SHAC(Settings):
    """Short-horizon actor-critic: gradients over a few steps, a value for what comes after."""

    learner: ClassVar[str] = "shac"

    horizon: int = 8
    """steps through which the gradient goes"""
    learning_rate: float = 2e-3
    """step of Adam for the policy; it falls linearly to a twentieth over the run"""
    value_rate: float = 1e-3
    """step of Adam for the value"""
    gamma: float = 0.99
    """discount of the return"""
    trace_decay: float = 0.95
    """lambda of the value's targets"""
    target_share: float = 0.2
    """share of the old target value that is kept in each iteration"""
    value_epochs: int = 8
    """passes over the samples of an iteration for the value"""
    value_batches: int = 4
    """updates of the value in one pass"""
    gradient_norm: float = 1.0
    """length to which a longer gradient is shortened"""
    log_std: float = -1.0
    """logarithm of the noise's standard deviation at the start, before squashing"""


@dataclass(frozen=True)
class SAC(Settings):
    """Soft actor-critic: learns from all samples so far, rewards entropy."""

    learner: ClassVar[str] = "sac"

    worlds: int = 8
    """environments that are stepped together"""
    steps: int = 100_000
    """length of the run: steps of the environment, all worlds counted"""
    hidden: tuple[int, ...] = (256, 256)
    """units of the hidden layers"""
    rollout: int = 125
    """steps of every world in one iteration"""
    batch: int = 256
    """samples in one update"""
    update_share: float = 1.0
    """updates for each new sample, from 0 to 1"""
    repeat: int = 1
    """how often each of these updates is made"""
    capacity: int = 200_000
    """samples that are kept"""
    warmup: int = 1000
    """samples with random actions at the start"""
    learning_rate: float = 3e-4
    """step of Adam for policy, values and temperature"""
    gamma: float = 0.99
    """discount of the return"""
    target_share: float = 0.995
    """share of the old target values that is kept in each update"""
    temperature: float = 0.1
    """weight of the entropy at the start; the aim is an entropy of -1 nat per action"""


@dataclass(frozen=True)
class MBPO(SAC):
    """Model-based policy optimization: SAC on samples of learnt networks of the dynamics."""

    learner: ClassVar[str] = "mbpo"

    ensemble: int = 5
    """networks of the dynamics"""
    elites: int = 3
    """of these, how many with the least error on held-out samples are used"""
    model_hidden: tuple[int, ...] = (128, 128)
    """units of their hidden layers"""
    model_every: int = 250
    """samples of the environment between two fits"""
    model_updates: int = 100
    """updates of a fit"""
    model_batch: int = 256
    """samples in one of these updates"""
    model_rate: float = 1e-3
    """step of Adam for the dynamics"""
    model_samples: int = 20
    """samples of the dynamics for each sample of the environment"""
    model_horizon: int = 1
    """steps of the dynamics from a state of the environment"""
    model_capacity: int = 100_000
    """samples of the dynamics that are kept"""
    model_share: float = 0.95
    """share of a batch that comes from the dynamics"""


@dataclass(frozen=True)
class Enhanced(MBPO):
    """SAC or MBPO with first-order samples, a first-order policy (Qiao et al. 2021), or both."""

    learner: ClassVar[str] = "enhanced"

    base: Literal["sac", "mbpo"] = "sac"
    """what is enhanced"""
    samples: int = 9
    """further samples near each sample of the environment; 0: none"""
    nearby: Literal["first-order", "exact"] = "first-order"
    """whether these follow from the Jacobian of the step, or are simulated"""
    radius: float = 0.1
    """largest change of an action in them; 1 is half an action's range"""
    sample_share: float = 0.9
    """share of a batch, or of what the dynamics are fitted to, that these have"""
    policy_gradient: Literal["none", "stored", "resimulated"] = "none"
    """where the simulator's gradient is taken: nowhere, at the stored action, at the policy's"""
