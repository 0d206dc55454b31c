"""The weights and samples that `tessera bench train-step --save-case FOLDER` wrote, as torch tensors."""

import json
import os
import struct

import h5py
import numpy
import torch


def weights(folder):
    """{name: tensor} of a safetensors file of 32-bit floats."""
    with open(os.path.join(folder, "weights.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise SystemExit(f"{name}: found {entry['dtype']}, expected F32")
        begin, end = entry["data_offsets"]
        array = numpy.frombuffer(data[begin:end], dtype="<f4").reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def sample(folder, number):
    """(input, target) of shape (1, channels, *grid), in the order of memory that convolutions like best."""
    with h5py.File(os.path.join(folder, "samples.h5")) as file:
        arrays = [file[name][number:number + 1] for name in ("input", "target")]
    order = torch.channels_last if arrays[0].ndim == 4 else torch.channels_last_3d
    return [torch.from_numpy(array).movedim(-1, 1).contiguous(memory_format=order) for array in arrays]
