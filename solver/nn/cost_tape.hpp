#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/axis_map.hpp"
#include "solver/nn/cost.hpp"

// Internal to the cost counts: device memory, history and messages of one rank, without the values.
namespace tessera::cost {

/// Bytes in use while any copy of the handle lives; null: nothing.
using Storage = std::shared_ptr<const Index>;

/// Counts what a rank allocates, multiplies and sends.
class Ledger {
 public:
  /// `type` is that of the parameters.
  Ledger(int ranks, InlineVector<int> parts, DType type)
      : ranks_(ranks), parts_(std::move(parts)), wide_(type), type_(type) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  int ranks() const { return ranks_; }
  /// Part of a grid axis that this rank has.
  int part(int axis) const { return parts_[axis]; }
  /// Of the activations that operators work on from now on.
  DType type() const { return type_; }
  void set_type(DType type) { type_ = type; }
  Index element_size() const { return static_cast<Index>(size_of(type_)); }
  /// Bytes of a parameter, or of an accumulator.
  Index wide_size() const { return static_cast<Index>(size_of(wide_)); }
  bool is_mixed() const { return type_ != wide_; }

  /// Memory for activations, for `wide` accumulators or parameters, or for `bytes`.
  Storage elements(Index count) { return bytes(count * element_size()); }
  Storage wide(Index count) { return bytes(count * wide_size()); }
  Storage bytes(Index count);
  /// Activations, counted as copies that a halo makes.
  Storage halo(Index elements);
  /// A copy of activations in the type of the accumulators, where that is another one.
  Storage widened(Index count) { return is_mixed() ? wide(count) : nullptr; }
  /// A parameter rounded to the activations' type, where that is another one.
  Storage rounded_parameter(Index count) { return is_mixed() ? elements(count) : nullptr; }
  /// Whether products of bf16 are computed in f32, from widened operands.
  bool widens_operands() const;
  Storage widened_operand(Index count) { return widens_operands() ? wide(count) : nullptr; }
  /// The gradient of a parameter: handed on at once, or at the end of the Hold that lives.
  Storage parameter_gradient(Index elements);
  /// The same of an operator that writes it where it is kept, see contribution_storage: no memory of its own
  /// but under a Hold.
  Storage written_parameter_gradient(Index elements) {
    return held_ ? parameter_gradient(elements) : nullptr;
  }
  /// Whether operators are going backward, while it lives: their messages are booked so.
  class Direction {
   public:
    Direction(Ledger& ledger, bool back) : ledger_(ledger), outer_(std::exchange(ledger.going_back_, back)) {}
    ~Direction() { ledger_.going_back_ = outer_; }
    Direction(const Direction&) = delete;
    Direction& operator=(const Direction&) = delete;

   private:
    Ledger& ledger_;
    bool outer_;
  };
  class Hold {
   public:
    explicit Hold(Ledger& ledger) : ledger_(ledger), outer_(std::exchange(ledger.held_, &gradients_)) {}
    ~Hold() { ledger_.held_ = outer_; }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Ledger& ledger_;
    std::vector<Storage> gradients_;
    std::vector<Storage>* outer_;
  };

  void multiply(double operations);
  void communicate(const std::string& op, const std::string& operation, Index calls, Index bytes);

  /// From here on the backward pass.
  void start_backward();
  const SampleCost& total() const { return total_; }

 private:
  int ranks_;
  InlineVector<int> parts_;
  DType wide_, type_;
  Index current_ = 0, halo_ = 0;
  bool backward_ = false, going_back_ = false;
  std::vector<Storage>* held_ = nullptr;
  SampleCost total_;
};

/// (1, *grid, channels) as a rank holds it.
struct Field {
  GridCuts cuts;
  Index channels = 0;
  Storage storage = nullptr;
  int node = -1;  ///< of the tape; -1: needs no gradient
};

Index cells_of(const Ledger& ledger, const GridCuts& cuts);
Shape extents_of(const GridCuts& cuts);

/// The recorded operators, as solver/tensor/engine.cpp runs them.
class Tape {
 public:
  using Grads = std::vector<Storage>;
  using Backward = std::function<Grads(const Storage& grad)>;

  explicit Tape(Ledger& ledger, bool recording = true) : ledger_(ledger), recording_(recording) {}
  Ledger& ledger() const { return ledger_; }

  /// A tensor whose gradient is asked for.
  int leaf();
  /// An operator that keeps `kept` until its backward pass has run; inputs of -1 need no gradient. Gives -1
  /// where nothing is recorded.
  int record(std::vector<int> inputs, std::vector<Storage> kept, Backward backward);
  /// Runs backward from the last node. Returns the gradients that arrived at the leaves, in order.
  Grads backward(Storage grad);

 private:
  struct Node {
    std::vector<int> inputs;
    std::vector<Storage> kept;
    Backward backward;  ///< null: a leaf
    DType type;
    Storage inbox = nullptr;
    bool owned = false;
  };
  void deliver(int node, const Storage& grad);

  Ledger& ledger_;
  bool recording_;
  std::vector<Node> nodes_;
};

/// One movement between boxes as one rank sees it, in indices of the grid (times channels are elements).
struct Movement {
  Index messages_out = 0, indices_out = 0;
  Index messages_in = 0, indices_in = 0;
  bool is_local = true;  ///< no rank sends anything
  /// Of all these indices those that are packed, forward and in the adjoint; -1: all.
  Index packed = -1, packed_adjoint = -1;
};

/// As ExchangePlan: `need(axis, part)` is what the ranks of that part need along an axis of the source.
Movement movement(const Ledger& ledger, const GridCuts& source,
                  const std::function<AxisMap(int axis, int part)>& need);
/// From boxes to boxes of the same grid.
Movement movement(const Ledger& ledger, const GridCuts& source, const GridCuts& target);

/// The staging buffers of a movement under way, its messages counted. `reversed`: the adjoint.
Storage send(Ledger& ledger, const std::string& op, const Movement& m, Index channels, bool reversed = false);
/// The adjoint whose elements travel as accumulators.
Storage send_sums(Ledger& ledger, const std::string& op, const Movement& m, Index channels);

}  // namespace tessera::cost
