"""The benchmarks' models in PyTorch, with the parameter names that Tessera uses. Widths and depths are read off the weights."""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        batch, tokens, dim = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q * (dim // self.heads) ** -0.5) @ k.transpose(-1, -2)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, dim))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(functional.gelu(self.fc1(x)))


class TransformerBlock(nn.Module):
    def __init__(self, dim, hidden, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn, self.mlp = Attention(dim, heads), Mlp(dim, hidden)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, channels, dim, patch):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, dim, patch, stride=patch), nn.LayerNorm(dim)

    def forward(self, x):
        return functional.relu(self.norm(self.conv(x).flatten(2).transpose(1, 2)))


class Vit(nn.Module):
    HEAD_SIZE = 64

    def __init__(self, weights):
        super().__init__()
        dim, channels, patch, _ = weights["patch_embed.conv.weight"].shape
        self.patch = patch
        self.patch_embed = PatchEmbed(channels, dim, patch)
        self.pos_embed = nn.Parameter(torch.empty_like(weights["pos_embed"]))
        hidden = weights["stages.0.mlp.fc1.weight"].shape[0]
        self.stages = nn.ModuleList(TransformerBlock(dim, hidden, dim // self.HEAD_SIZE) for _ in range(depth(weights)))
        self.head = nn.Linear(dim, weights["head.weight"].shape[0])

    def forward(self, x):
        batch, _, rows, columns = x.shape
        y = self.patch_embed(x) + self.pos_embed
        for stage in self.stages:
            y = stage(y)
        # (batch, token row, token column, row in patch, column in patch, channel)
        y = self.head(y).view(batch, rows // self.patch, columns // self.patch, self.patch, self.patch, -1)
        return y.permute(0, 5, 1, 3, 2, 4).reshape(batch, -1, rows, columns)


class ResidualBlock(nn.Module):
    GROUPS = 8

    def __init__(self, conv, dim):
        super().__init__()
        self.conv1, self.conv2 = conv(dim, dim, 3, padding=1), conv(dim, dim, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(self.GROUPS, dim), nn.GroupNorm(self.GROUPS, dim)

    def forward(self, x):
        y = functional.gelu(self.norm1(self.conv1(x)))
        return functional.gelu(self.norm2(self.conv2(y)) + x)


class ConvNet(nn.Module):
    def __init__(self, weights):
        super().__init__()
        dim, channels, patch, *others = weights["patch_embed.weight"].shape
        conv, transpose, self.order = ((nn.Conv2d, nn.ConvTranspose2d, torch.channels_last) if len(others) == 1 else
                                       (nn.Conv3d, nn.ConvTranspose3d, torch.channels_last_3d))
        self.patch_embed = conv(channels, dim, patch, stride=patch)
        self.stages = nn.ModuleList(ResidualBlock(conv, dim) for _ in range(depth(weights)))
        self.head = transpose(dim, weights["head.weight"].shape[1], patch, stride=patch)

    def forward(self, x):
        y = self.patch_embed(x)
        for stage in self.stages:
            y = stage(y)
        return self.head(y)


def depth(weights):
    return 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("stages."))


def make(weights):
    """The model that the weights belong to."""
    model = Vit(weights) if "pos_embed" in weights else ConvNet(weights)
    model.load_state_dict(weights)
    return model.to(memory_format=model.order) if isinstance(model, ConvNet) else model
