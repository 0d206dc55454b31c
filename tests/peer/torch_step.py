"""Training steps in PyTorch from a saved case: one rank of them. Rank 0 prints {"losses": [...], "seconds": [...]}, a step's time being
that of the slowest rank. Started by train_step.py: torch_step.py FOLDER REPEATS RANK RANKS PORT"""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import case
import models

WARM_UP = 2


def largest(value, ranks):
    tensor = torch.tensor([value], dtype=torch.float64)
    if ranks > 1:
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.item()


def mean(value, ranks):
    tensor = torch.tensor([value], dtype=torch.float64)
    if ranks > 1:
        dist.all_reduce(tensor)
    return tensor.item() / ranks


def main(folder, repeats, rank, ranks, port):
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    model = models.make(case.weights(folder))
    trained = DistributedDataParallel(model) if ranks > 1 else model
    x, target = case.sample(folder, rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(trained(x), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    losses, seconds = [], []
    for number in range(WARM_UP + repeats):
        if ranks > 1:
            dist.barrier()
        begin = time.perf_counter()
        loss = step()
        own = time.perf_counter() - begin
        losses.append(mean(loss, ranks))
        if number >= WARM_UP:
            seconds.append(largest(own, ranks))
    if rank == 0:
        print(json.dumps({"losses": losses, "seconds": seconds}), flush=True)
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
