#include "solver/train/optimizer.hpp"

#include <cmath>
#include <numbers>

#include "parallel/comm_stats.hpp"
#include "solver/tensor/numeric.hpp"
#include "solver/tensor/operator_clock.hpp"

namespace tessera {
namespace {

template <typename T>
void sgd_step(T* p, const T* g, double factor, T* buffer, Index n, const OptimizerOptions& o, double lr,
              bool first) {
  using C = Compute<T>;
  const C decay = C(o.weight_decay), momentum = C(o.momentum), rate = C(lr), scale = C(factor);
  const bool nesterov = o.nesterov, has_momentum = o.momentum != 0;
  for_each_chunk(
      "sgd", n, KOKKOS_LAMBDA(Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          C d = scale * load(g[i]) + decay * load(p[i]);
          if (has_momentum) {
            const C v = first ? d : momentum * load(buffer[i]) + d;
            store(buffer[i], v);
            d = nesterov ? d + momentum * v : v;
          }
          store(p[i], load(p[i]) - rate * d);
        }
      });
}

template <typename T>
void adam_step(T* p, const T* g, double factor, T* m, T* v, Index n, const OptimizerOptions& o, double lr,
               Index step) {
  using C = Compute<T>;
  const bool decoupled = o.kind == OptimizerKind::adamw;
  const C keep = C(decoupled ? 1 - lr * o.weight_decay : 1), decay = C(decoupled ? 0 : o.weight_decay);
  const C b1 = C(o.beta1), b2 = C(o.beta2), eps = C(o.eps), scale = C(factor);
  const double t = static_cast<double>(step);
  const C rate = C(lr / (1 - std::pow(o.beta1, t)));
  const C root = C(1 / std::sqrt(1 - std::pow(o.beta2, t)));
  for_each_chunk(
      "adam", n, KOKKOS_LAMBDA(Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
          const C w = load(p[i]) * keep;
          const C d = scale * load(g[i]) + decay * load(p[i]);
          const C mean = b1 * load(m[i]) + (C(1) - b1) * d;
          const C square = b2 * load(v[i]) + (C(1) - b2) * d * d;
          store(m[i], mean);
          store(v[i], square);
          store(p[i], w - rate * mean / (std::sqrt(square) * root + eps));
        }
      });
}

template <typename T>
double sum_of_squares(const T* g, Index n) {
  constexpr Index chunk = 8192;
  const Index chunks = (n + chunk - 1) / chunk;
  const Tensor partial = Tensor::empty(Shape{chunks}, DType::f64);
  double* sums = partial.data<double>();
  for_each(
      "sum_of_squares", chunks, KOKKOS_LAMBDA(Index c) {
        double lanes[8] = {};
        const Index end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
        Index i = c * chunk;
        for (; i + 8 <= end; i += 8) {
          for (Index l = 0; l < 8; ++l) lanes[l] += double(load(g[i + l])) * double(load(g[i + l]));
        }
        for (; i < end; ++i) lanes[0] += double(load(g[i])) * double(load(g[i]));
        sums[c] =
            ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
      });
  double total = 0;
  for (double s : partial.to_host<double>()) total += s;
  return total;
}

template <typename T>
void average(T* a, const T* p, Index n, double decay) {
  using C = Compute<T>;
  for_each(
      "average", n,
      KOKKOS_LAMBDA(Index i) { store(a[i], C(decay) * load(a[i]) + C(1 - decay) * load(p[i])); });
}

}  // namespace

Optimizer::Optimizer(std::vector<NamedTensor> parameters, OptimizerOptions options)
    : parameters_(std::move(parameters)), options_(options) {
  for (const NamedTensor& p : parameters_) {
    const bool adam = options_.kind != OptimizerKind::sgd;
    first_.push_back(adam || options_.momentum != 0 ? Tensor::zeros_like(p.tensor) : Tensor());
    second_.push_back(adam ? Tensor::zeros_like(p.tensor) : Tensor());
  }
}

void Optimizer::step(double lr, double gradient_factor) {
  const OperatorTimer timer("optimizer", false);
  const bool first = steps_ == 0;
  ++steps_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i].tensor;
    const Tensor g = p.grad();
    if (!g) continue;
    dispatch_floating(p.dtype(), "optimizer", [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      if (options_.kind == OptimizerKind::sgd) {
        T* buffer = first_[i] ? first_[i].data<T>() : nullptr;
        sgd_step(p.data<T>(), g.data<T>(), gradient_factor, buffer, p.local_count(), options_, lr, first);
      } else {
        adam_step(p.data<T>(), g.data<T>(), gradient_factor, first_[i].data<T>(), second_[i].data<T>(),
                  p.local_count(), options_, lr, steps_);
      }
    });
    p.mark_written();
  }
}

std::vector<NamedTensor> Optimizer::state() const {
  const bool adam = options_.kind != OptimizerKind::sgd;
  std::vector<NamedTensor> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    if (first_[i]) result.push_back({name + (adam ? ".exp_avg" : ".momentum_buffer"), first_[i]});
    if (second_[i]) result.push_back({name + ".exp_avg_sq", second_[i]});
  }
  return result;
}

double gradient_norm(const std::vector<NamedTensor>& parameters) {
  const CommScope scope("gradient norm");
  const OperatorTimer timer("gradient norm", false);
  // Plain gradients are whole on every rank; sharded ones add up over their mesh.
  double plain = 0, sharded = 0;
  Mesh mesh;
  for (const NamedTensor& p : parameters) {
    const Tensor g = p.tensor.grad();
    if (!g) continue;
    const double squares = dispatch_floating(g.dtype(), "gradient_norm", [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      return sum_of_squares(g.data<T>(), g.local_count());
    });
    (p.tensor.is_shard() ? sharded : plain) += squares;
    if (p.tensor.is_shard()) mesh = p.tensor.layout().mesh();
  }
  if (mesh) sharded = mesh.comm().all_reduce_value(sharded, ReduceOp::sum);
  return std::sqrt(plain + sharded);
}

double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor < 1 ? factor : 1;
}

ParameterAverage::ParameterAverage(const std::vector<NamedTensor>& parameters, double decay)
    : parameters_(parameters), decay_(decay) {
  for (const NamedTensor& p : parameters_) averages_.push_back({p.name, p.tensor.clone()});
}

void ParameterAverage::update() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i].tensor;
    dispatch_floating(p.dtype(), "ParameterAverage", [&](auto* null) {
      using T = std::remove_pointer_t<decltype(null)>;
      average(averages_[i].tensor.data<T>(), p.data<T>(), p.local_count(), decay_);
    });
  }
}

void ParameterAverage::swap() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor kept = parameters_[i].tensor.clone();
    parameters_[i].tensor.copy_from(averages_[i].tensor);
    averages_[i].tensor.copy_from(kept);
  }
}

double LearningRateSchedule::factor(Index step) const {
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (total <= 0) return 1;
  const double span = static_cast<double>(std::max<Index>(total - warmup, 1));
  const double done = std::min(1.0, static_cast<double>(step - warmup) / span);
  return final_factor + (1 - final_factor) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace tessera
