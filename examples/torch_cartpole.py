"""Train a network to balance a cart-pole by backpropagation through time.

Poles start leaning by up to 0.3 rad. The loss is the mean distance from upright at the middle of
the rail over one second, and its gradient flows through all steps and through the network that
closes the loop. Poles that were not trained on stay up for 10 s.
"""

import torch

import featherback as fb
import featherback.torch as fbt

torch.manual_seed(0)
torch.set_num_threads(1)  # small tensors
torch.set_default_dtype(torch.float64)
sim = fb.Simulator(fb.models.cartpole(), dt=0.02)


class Policy(torch.nn.Module):
    """A force on the cart, within +-10 N, from the state."""

    def __init__(self) -> None:
        """Draw the weights."""
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1), torch.nn.Tanh()
        )

    def forward(self, q: torch.Tensor, v: torch.Tensor, t: int) -> torch.Tensor:
        """Return u for configuration q and velocity v."""
        return 10 * self.net(torch.cat([q, v], -1))


def starts(worlds: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random carts near the middle with leaning poles, at rest."""
    q = (2 * torch.rand(worlds, 2) - 1) * torch.tensor([0.3, 0.3])
    return q, torch.zeros_like(q)


def train(policy: Policy, rounds: int = 100) -> None:
    """Follow the gradient of the loss."""
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    for _ in range(rounds):
        roll = fbt.closed_loop(sim, policy, *starts(16), 50, memory="states")
        loss = roll.q.square().mean() + 0.1 * roll.v.square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.1)
        optimizer.step()


policy = Policy()
train(policy)
with torch.no_grad():
    roll = fbt.closed_loop(sim, policy, *starts(256), 500)
up = (roll.q[..., 1].abs() < 0.5).all(-1) & (roll.q[..., 0].abs() < 2.4).all(-1)
print(f"poles that stay up for 10 s: {int(up.sum())} of {len(up)}")
assert up.all()
