#include <algorithm>

#include "solver/nn/cost_layers.hpp"
#include "solver/ops/attention/kernel.hpp"
#include "solver/ops/attention/layouts.hpp"
#include "solver/ops/neighborhood_attention/kernel.hpp"

namespace tessera::cost {
namespace {

using Grads = Tape::Grads;

/// How the ranks of a domain group share one attention.
struct Sharing {
  int heads_axis = -1;  ///< grid axis whose ranks exchange tokens for heads, or -1
  GridCuts cuts;        ///< of the tokens then
  Index channels = 0;   ///< of this rank's heads
  Index heads = 0;
  std::vector<Index> ring_cells;  ///< tokens of each rank of the ring
  int ring_rank = 0;
};

int axis_for_heads(const GridCuts& cuts, Index heads) {
  int best = -1;
  for (std::size_t a = 0; a < cuts.size(); ++a) {
    const int size = cuts[a].parts();
    if (size < attention_detail::kLeastRanksForHeads || heads % size != 0) continue;
    if (best < 0 || size > cuts[static_cast<std::size_t>(best)].parts()) best = static_cast<int>(a);
  }
  return best;
}

Sharing share(const Ledger& ledger, const Field& q, Index heads) {
  Sharing s{axis_for_heads(q.cuts, heads), q.cuts, q.channels, heads, {1}, 0};
  if (s.heads_axis >= 0) {
    const Partition& cut = q.cuts[static_cast<std::size_t>(s.heads_axis)];
    s.heads = heads / cut.parts();
    s.channels = q.channels / cut.parts();
    // Every rank of the axis sees all its tokens.
    std::vector<Index> whole(static_cast<std::size_t>(cut.parts()) + 1, cut.extent());
    std::fill(whole.begin(), whole.begin() + ledger.part(s.heads_axis) + 1, Index{0});
    s.cuts[static_cast<std::size_t>(s.heads_axis)] = Partition(std::move(whole));
  }
  for (std::size_t a = 0; a < s.cuts.size(); ++a) {
    const int axis = static_cast<int>(a), parts = axis == s.heads_axis ? 1 : s.cuts[a].parts();
    std::vector<Index> cells;
    for (const Index outer : s.ring_cells) {
      for (int p = 0; p < parts; ++p)
        cells.push_back(outer * (axis == s.heads_axis ? s.cuts[a].extent() : s.cuts[a].range(p).size()));
    }
    s.ring_cells = std::move(cells);
    s.ring_rank = s.ring_rank * parts + (parts > 1 ? ledger.part(axis) : 0);
  }
  return s;
}

/// Tokens for heads, one element per index: this rank's tokens of the others' heads against the reverse.
Movement to_heads(const Ledger& ledger, const Field& x, const Sharing& s) {
  const Partition& cut = x.cuts[static_cast<std::size_t>(s.heads_axis)];
  const int own = ledger.part(s.heads_axis);
  const Index cells = cells_of(ledger, x.cuts), others = cells_of(ledger, s.cuts) - cells;
  Movement m;
  m.is_local = false;
  m.messages_out = cells > 0 ? cut.parts() - 1 : 0;
  m.indices_out = cells * (x.channels - s.channels);
  m.indices_in = others * s.channels;
  for (int p = 0; p < cut.parts() && others > 0; ++p) m.messages_in += p != own && !cut.range(p).empty();
  return m;
}

Field with_heads(Tape& tape, const Field& x, const Sharing& s, bool reversed, const GridCuts& cuts,
                 Index channels) {
  if (s.heads_axis < 0) return x;
  Ledger& ledger = tape.ledger();
  Field tokens = x;
  if (reversed) tokens.cuts = cuts, tokens.channels = channels;
  const Movement m = to_heads(ledger, tokens, s);
  Field y{reversed ? cuts : s.cuts, reversed ? channels : s.channels};
  y.storage = ledger.elements(cells_of(ledger, y.cuts) * y.channels);
  send(ledger, "attention", m, 1, reversed);
  const Index inputs = cells_of(ledger, x.cuts) * x.channels;
  y.node = tape.record({x.node}, {}, [=, &ledger](const Storage&) {
    const Storage gx = ledger.elements(inputs);
    send(ledger, "attention", m, 1, !reversed);
    return Grads{gx};
  });
  return y;
}

/// Blocks that this rank hands on: those of its own and of the ranks before it.
void hand_on(Ledger& ledger, const Sharing& s, Index steps, Index channels, Index element_size) {
  const auto ranks = static_cast<Index>(s.ring_cells.size());
  for (Index step = 0; step < steps; ++step) {
    const Index owner = ((s.ring_rank - step) % ranks + ranks) % ranks;
    const Index elements = s.ring_cells[static_cast<std::size_t>(owner)] * channels;
    ledger.communicate("attention", "send", elements > 0 ? 1 : 0, elements * element_size);
  }
}

}  // namespace

Field attention(Tape& tape, const Field& q_in, const Field& k_in, const Field& v_in, Index heads) {
  Ledger& ledger = tape.ledger();
  const Sharing s = share(ledger, q_in, heads);
  const auto arranged = [&](const Field& x) {
    return with_heads(tape, x, s, false, q_in.cuts, q_in.channels);
  };
  const Field q = arranged(q_in), k = arranged(k_in), v = arranged(v_in);
  const auto ranks = static_cast<Index>(s.ring_cells.size());
  const Index tokens = cells_of(ledger, s.cuts), keys = count(extents_of(s.cuts)), c = s.channels;
  const Index rows = tokens * s.heads, block = 2 * tokens * c;  // [k | v]
  const Index longest = 2 * c * *std::max_element(s.ring_cells.begin(), s.ring_cells.end());
  const Index scores = std::min(attention_detail::kQueryTile, tokens) *
                       std::min(attention_detail::kKeyTile, ranks == 1 ? keys : longest / (2 * c));
  const double product = 2.0 * static_cast<double>(tokens) * static_cast<double>(keys * c);

  const Storage positions = ledger.bytes((tokens + keys) * static_cast<Index>(sizeof(Index)));
  Field y{s.cuts, c};
  Storage lse;
  {
    const Storage out = ledger.wide(tokens * c), state = ledger.wide(2 * rows);
    {
      const Storage blocks = ranks > 1 ? ledger.elements(block + 2 * longest) : nullptr;
      hand_on(ledger, s, ranks - 1, 2 * c, ledger.element_size());
      ledger.wide(scores + (tokens * c + longest) / s.heads);  // one head of q and of [k | v]
      ledger.multiply(2 * product);                            // q k^T, p v
    }
    y.storage = ledger.elements(tokens * c);
    lse = ledger.wide(rows);
  }
  const auto backward = [=, &ledger](const Storage&) {
    const Storage products = ledger.wide(rows), dq = ledger.wide(tokens * c);
    const Storage dkv = ledger.wide(longest);
    {
      const Storage sums = ranks > 1 ? ledger.wide(2 * longest) : nullptr;
      const Storage blocks = ranks > 1 ? ledger.elements(block + 2 * longest) : nullptr;
      hand_on(ledger, s, ranks - 1, 2 * c, ledger.element_size());
      if (ranks > 1) hand_on(ledger, s, ranks, 2 * c, ledger.wide_size());
      ledger.wide(2 * scores + (2 * tokens * c + longest) / s.heads);
      ledger.multiply(5 * product);  // q k^T, gy v^T, and what adds to dq, dk and dv
    }
    return Grads{ledger.elements(tokens * c), ledger.elements(tokens * c), ledger.elements(tokens * c)};
  };
  y.node = tape.record({q.node, k.node, v.node}, {q.storage, k.storage, v.storage, y.storage, lse, positions},
                       backward);
  return with_heads(tape, y, s, true, q_in.cuts, q_in.channels);
}

Field neighborhood_attention(Tape& tape, const Field& q, const Field& k, const Field& v, Index heads,
                             Index kernel_size) {
  Ledger& ledger = tape.ledger();
  const auto needed = [&](int a, int part) {
    const Partition& cuts = q.cuts[static_cast<std::size_t>(a)];
    return neighborhood::Axis{cuts.extent(), kernel_size, 1}.needed(cuts.range(part));
  };
  const Movement m = movement(ledger, q.cuts, [&](int a, int part) { return map_identity(needed(a, part)); });
  neighborhood::Problem problem{{}, 1, heads, q.channels / heads, q.channels / heads, 1};
  neighborhood::Windows& w = problem.windows;
  const int grid = static_cast<int>(q.cuts.size()), leading = neighborhood::kAxes - grid;
  for (int a = 0; a < neighborhood::kAxes; ++a) {
    w.queries[a] = w.region[a] = w.kernel[a] = w.dilation[a] = 1;
    if (a < leading) continue;
    const int axis = a - leading, part = ledger.part(axis);
    w.queries[a] = q.cuts[static_cast<std::size_t>(axis)].range(part).size();
    w.region[a] = needed(axis, part).size();
    w.kernel[a] = kernel_size;
  }
  const Index region = problem.region();
  const std::string op = "neighborhood_attention";
  const Index tokens = cells_of(ledger, q.cuts), c = q.channels;
  const double product = 2.0 * static_cast<double>(tokens) * static_cast<double>(w.window() * c);

  const Storage k_region = ledger.halo(region * c), v_region = ledger.halo(region * c);
  {
    const Storage k_messages = send(ledger, op, m, c);
    send(ledger, op, m, c);
  }
  Field y{q.cuts, c, ledger.elements(tokens * c)};
  const Storage lse = ledger.wide(tokens * heads);
  ledger.bytes(scratch_bytes(problem, false, DType::f32));
  ledger.multiply(2 * product);
  const Index scratch = scratch_bytes(problem, true, DType::f32);
  const auto backward = [=, &ledger](const Storage&) {
    Grads grads{ledger.elements(tokens * c)};
    const Storage dk = ledger.wide(region * c), dv = ledger.wide(region * c);
    ledger.bytes(scratch);
    ledger.multiply(5 * product);
    for (int i = 0; i < 2; ++i) {
      const Storage sums = ledger.wide(tokens * c);
      send_sums(ledger, op, m, c);
      grads.push_back(ledger.elements(tokens * c));
    }
    return grads;
  };
  y.node = tape.record({q.node, k.node, v.node},
                       {q.storage, k.storage, v.storage, k_region, v_region, y.storage, lse}, backward);
  return y;
}

}  // namespace tessera::cost
