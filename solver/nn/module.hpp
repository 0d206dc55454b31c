#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "solver/tensor/tensor.hpp"

namespace tessera {

/// How a parameter starts.
struct Init {
  enum class Kind : std::uint8_t { constant, uniform, normal };
  Kind kind = Kind::constant;
  double scale = 0;  ///< the constant, the bound of uniform(-scale, scale), or the standard deviation

  static Init constant(double value) { return {Kind::constant, value}; }
  static Init uniform(double bound) { return {Kind::uniform, bound}; }
  static Init normal(double deviation) { return {Kind::normal, deviation}; }
};

struct NamedTensor {
  std::string name;  ///< dotted path, as in PyTorch's state_dict
  Tensor tensor;
};

/// A part of a model that owns parameters and other modules, known by PyTorch's names. Parameters are plain
/// tensors: every rank holds them whole.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// All parameters, own ones first, in the order of registration.
  std::vector<NamedTensor> parameters() const;
  Index parameter_count() const;
  /// Draws every parameter anew: number i of a parameter depends on (seed, its name, i) alone.
  void initialise(std::uint64_t seed) const;

 protected:
  Tensor parameter(std::string name, const Shape& shape, Init init, DType type);
  Tensor parameter(std::string name, const Layout& layout, Init init, DType type);
  /// Registers a child; with an empty name its parameters keep their own names.
  template <typename M>
  std::shared_ptr<M> module(std::string name, std::shared_ptr<M> child) {
    children_.emplace_back(std::move(name), child);
    return child;
  }

 private:
  struct Own {
    NamedTensor named;
    Init init;
  };
  Tensor add_own(std::string name, const Tensor& tensor, Init init);
  void collect(const std::string& prefix, std::vector<Own>& out) const;

  std::vector<Own> own_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
};

}  // namespace tessera
