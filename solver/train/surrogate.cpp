#include "solver/train/surrogate.hpp"

#include <cmath>
#include <numbers>

#include "solver/ops/elementwise/elementwise.hpp"
#include "solver/ops/reduce/reduce.hpp"

namespace tessera {

SeasonalTerm::SeasonalTerm(Harmonics harmonics, const Layout& field_layout)
    : harmonics_(harmonics),
      // (1, *grid, fields) -> (terms, *grid, fields), cut alike
      weight_(parameter("weight", field_layout.with_extent(0, 2 * harmonics.count + 1), Init::constant(0),
                        DType::f32)) {}

Tensor SeasonalTerm::operator()(Index step) const {
  std::vector<float> basis{1.0f};
  for (Index k = 1; k <= harmonics_.count; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k * step) / harmonics_.period;
    basis.push_back(static_cast<float>(std::sin(angle)));
    basis.push_back(static_cast<float>(std::cos(angle)));
  }
  Shape shape = Shape::filled(weight_.ndim(), 1);
  shape[0] = static_cast<Index>(basis.size());
  const Tensor factors = Tensor::from_host(std::span<const float>(basis), shape);
  const int terms = 0;
  return sum(mul(weight_, factors), {&terms, 1}, true);
}

Surrogate::Surrogate(std::shared_ptr<Model> model, std::shared_ptr<SeasonalTerm> seasonal)
    : model_(module("", std::move(model))) {
  if (seasonal) seasonal_ = module("seasonal", std::move(seasonal));
}

Tensor Surrogate::operator()(const Sample& sample) const {
  Tensor y = (*model_)(sample.input);
  if (sample.base) y = add(y, sample.base);
  if (seasonal_) y = add(y, (*seasonal_)(sample.step));
  return y;
}

}  // namespace tessera
