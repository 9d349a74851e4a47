"""Trains a toy model with tensor, pipeline and data parallelism: `python3 train.py`.

Every rank says where it is, then trains if torch is there, with gloo on processors. Its place is
its role's name (`d1p0`: stage 0 of replica 1) and its number in that role; under torchrun, which
starts more processes than the job has tasks, it follows from the rank: ranks follow the fabric.
"""

import os
import re
import sys
from itertools import product
from typing import NamedTuple

STAGES = 2
TENSOR = 2
WIDTH, HIDDEN, BATCH, STEPS = 8, 16, 32, 60


class Place(NamedTuple):
    replica: int
    stage: int
    tensor: int


def place_of(rank: int) -> Place:
    match = re.fullmatch(r"d(\d+)p(\d+)", os.environ.get("XCE_ROLE", ""))
    if match:
        return Place(int(match[1]), int(match[2]), int(os.environ["XCE_ROLE_INDEX"]))
    rest, tensor = divmod(rank, TENSOR)
    return Place(*divmod(rest, STAGES), tensor)


RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
HERE = place_of(RANK)
HOST = os.environ.get("HOSTNAME", "?")
GPUS = os.environ.get("CUDA_VISIBLE_DEVICES", "none")


def say(text: str) -> None:
    """Say something in one piece: all ranks write to one file."""
    os.write(1, f"rank {RANK}{text}\n".encode())


say(f" of {WORLD}: {HERE} on {HOST}, GPUs {GPUS}")

try:
    import torch
    import torch.distributed as dist
except ImportError:
    say(": torch is not installed here, so nothing is trained")
    sys.exit()

Context = torch.autograd.function.FunctionCtx
Group = dist.ProcessGroup
Tensor = torch.Tensor


class Copy(torch.autograd.Function):
    """Goes into layers that are split: as it is forward, the sum of all parts backward."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, None]:
        whole = gradient.clone()
        dist.all_reduce(whole, group=ctx.group)
        return whole, None


class Sum(torch.autograd.Function):
    """Comes out of layers that are split: the sum of all parts forward, as it is backward."""

    @staticmethod
    def forward(_: Context, x: Tensor, group: Group) -> Tensor:
        whole = x.clone()
        dist.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(_: Context, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class Stage(torch.nn.Module):
    """A pipeline stage: a block of two layers, of which this rank has its part."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.group = group
        self.into = torch.nn.Linear(WIDTH, HIDDEN // TENSOR)
        self.out = torch.nn.Linear(HIDDEN // TENSOR, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.into(Copy.apply(x, self.group)))
        return x + Sum.apply(self.out(hidden), self.group)


def find_places() -> list[Place]:
    """Return where all ranks are, in their order."""
    mine = torch.tensor(HERE)
    found = [torch.empty_like(mine) for _ in range(WORLD)]
    dist.all_gather(found, mine)
    return [Place(*one.tolist()) for one in found]


def find_groups(places: list[Place]) -> dict[str, tuple[Group, list[int]]]:
    """Return the group of this rank along each kind; every rank makes all groups, in one order."""
    mine = {}
    for kind in Place._fields:
        lines = {}
        for rank, place in enumerate(places):
            lines.setdefault(place._replace(**{kind: 0}), []).append(rank)
        for line, ranks in sorted(lines.items()):
            group = dist.new_group(ranks)
            if line == HERE._replace(**{kind: 0}):
                mine[kind] = (group, ranks)
    return mine


def run_step(model: Stage, batch: Tensor, target: Tensor, stages: list[int]) -> float:
    """Go through the pipeline forward and backward; return the loss, which the last stage knows."""
    x = batch
    if HERE.stage > 0:
        x = torch.empty(BATCH, WIDTH)
        dist.recv(x, stages[HERE.stage - 1])
        x.requires_grad_()
    y = model(x)
    if HERE.stage < STAGES - 1:
        dist.send(y.detach(), stages[HERE.stage + 1])
        gradient = torch.empty_like(y)
        dist.recv(gradient, stages[HERE.stage + 1])
        y.backward(gradient)
        loss = torch.zeros(())
    else:
        loss = ((y - target) ** 2).mean()
        loss.backward()
    if HERE.stage > 0:
        dist.send(x.grad, stages[HERE.stage - 1])
    return loss.item()


def train(places: list[Place]) -> None:
    groups = find_groups(places)
    copies, copy_ranks = groups["replica"]
    stages = groups["stage"][1]
    # Copies of a part begin alike, parts differ; each replica has data of its own.
    torch.manual_seed(100 * HERE.stage + HERE.tensor)
    model = Stage(groups["tensor"][0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    batch = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(HERE.replica))
    target = torch.sin(batch).flip(1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses.append(run_step(model, batch, target, stages))
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=copies)
            parameter.grad /= len(copy_ranks)
        optimizer.step()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    all_copies = [torch.empty_like(flat) for _ in copy_ranks]
    dist.all_gather(all_copies, flat, group=copies)
    equal = all(torch.equal(flat, other) for other in all_copies)
    if HERE.stage == STAGES - 1:
        say(f": loss {losses[0]:.3f} to {losses[-1]:.3f}")
    say(f": all {len(copy_ranks)} copies of stage {HERE.stage}, part {HERE.tensor} equal: {equal}")


dist.init_process_group("gloo")
everybody = find_places()
copies = WORLD // STAGES // TENSOR
whole = [Place(*place) for place in product(range(copies), range(STAGES), range(TENSOR))]
if sorted(everybody) != whole:
    sys.exit(f"these ranks make no whole replicas: {everybody}")
train(everybody)
dist.destroy_process_group()
