"""What the check of gradients found, and how it is printed."""

from __future__ import annotations

from dataclasses import dataclass, field

TIES = "ties, where several slopes are right and the gradient is one of them or between them"


@dataclass(frozen=True)
class Where:
    """One place where a gradient and differences were compared, or could not be.

    Attributes:
        draw: index of the draw; 0 is the given state itself.
        name: "q", "v", "act", "u" or the name of a parameter.
        index: entry of that input, in its own shape; None for a line through all of them.
        step: first step after which the loss has this error or the modes differ; None if unknown.
        error: error relative to the largest entry of the gradient of that input, or to the
            smallest slope that rounding leaves visible.
        what: the contact whose mode changed, or why there is no gradient; may be empty.
        tie: whether slopes on the two sides, or of large and small differences, disagree, and the
            gradient is one of them or between them: the border of two modes.
    """

    draw: int
    name: str = ""
    index: tuple[int, ...] | None = None
    step: int | None = None
    error: float = 0.0
    what: str = ""
    tie: bool = False

    def __str__(self) -> str:
        """Return the place in words."""
        entry = "" if self.index is None else str(list(self.index))
        step = "" if self.step is None else f", step {self.step}"
        what = f": {self.what}" if self.what else ""
        return (
            f"draw {self.draw}, {self.name}{entry}{step}{what}"
            if self.name
            else (f"draw {self.draw}{step}{what}")
        )


@dataclass(frozen=True)
class GradientReport:
    """What `check_gradients` found; `print` it.

    Attributes:
        model: name of the model.
        steps: steps of each rollout.
        draws: rollouts that were made.
        tolerance: largest relative error that is allowed.
        lines: lines through q, v, u or a parameter along which slopes were compared.
        errors: largest error by input, relative to the largest entry of its gradient; that of a
            gradient of rounding size to the smallest slope that rounding leaves visible.
        worst: where the largest error is; None where nothing could be compared.
        crossed: lines whose differences cross a contact mode, so that they say nothing; ties are
            among them.
        missing: draws without a gradient, and why.
    """

    model: str
    steps: int
    draws: int
    tolerance: float
    lines: int
    errors: dict[str, float]
    worst: Where | None
    crossed: tuple[Where, ...] = field(default=())
    missing: tuple[Where, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether something was compared and no error is above the tolerance."""
        return self.worst is not None and self.worst.error <= self.tolerance

    @property
    def crossed_draws(self) -> tuple[int, ...]:
        """The draws in which at least one line crossed a mode."""
        return tuple(sorted({place.draw for place in self.crossed}))

    @property
    def missing_draws(self) -> tuple[int, ...]:
        """The draws without a gradient."""
        return tuple(place.draw for place in self.missing)

    def __str__(self) -> str:
        """Return a short table."""
        verdict = "ok" if self.ok else "NOT OK" if self.lines else "nothing could be compared"
        rows = [
            f'gradients of "{self.model}", {self.draws} draws of {self.steps} steps: {verdict}',
            f"  lines compared   {self.lines}",
        ]
        if self.worst is not None:
            rows.append(
                f"  worst error      {self.worst.error:.1e} (allowed {self.tolerance:.0e}), "
                f"{self.worst}"
            )
        worst = sorted(self.errors.items(), key=lambda item: -item[1])[:8]
        rows += [f"    {name:<22} {error:.1e}" for name, error in worst]
        crossings = f"{len(self.crossed)} lines in {len(self.crossed_draws)} draws"
        for label, found, places in (
            ("crossed a mode", crossings, self.crossed),
            ("no gradient", f"{len(self.missing)} draws", self.missing),
        ):
            rows.append(f"  {label:<16} {found}")
            rows += [f"    {place}" for place in places[:3]]
            if len(places) > 3:
                rows.append(f"    and {len(places) - 3} more")
            if ties := sum(place.tie for place in places):
                rows.append(f"    {ties} of them: {TIES}")
        return "\n".join(rows)
