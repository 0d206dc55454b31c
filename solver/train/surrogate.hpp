#pragma once

#include <memory>
#include <optional>

#include "solver/nn/model.hpp"
#include "solver/train/sample.hpp"

namespace tessera {

/// A learned function of the time of the cycle for every cell and field:
///   sum over k of basis_k(t) * weight[k, cell, field],  basis = 1, sin, cos, sin 2, cos 2, ...
/// The weight (2 count + 1, *grid, fields) is sharded like the grid and starts at zero.
class SeasonalTerm : public Module {
 public:
  SeasonalTerm(Harmonics harmonics, const Layout& field_layout);
  /// (1, *grid, fields) at step t.
  Tensor operator()(Index step) const;

 private:
  Harmonics harmonics_;
  Tensor weight_;
};

/// What is trained: a model and the terms around it. The prediction, normalised like the fields, is
///   model(input) + base + seasonal(t).
/// The model's parameters keep their PyTorch names; the seasonal term's is "seasonal.weight".
class Surrogate : public Module {
 public:
  Surrogate(std::shared_ptr<Model> model, std::shared_ptr<SeasonalTerm> seasonal);
  Tensor operator()(const Sample& sample) const;
  Model& model() const { return *model_; }

 private:
  std::shared_ptr<Model> model_;
  std::shared_ptr<SeasonalTerm> seasonal_;
};

}  // namespace tessera
