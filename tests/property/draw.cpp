#include "tests/property/draw.hpp"

#include <algorithm>

namespace tessera::property {

Shape Draw::shape(int dims, Index most, bool may_be_empty) {
  Shape shape;
  for (int d = 0; d < dims; ++d) shape.push_back(one_in(6) ? 1 : in(1, most));
  if (may_be_empty && dims > 0 && one_in(24)) shape[dim(dims)] = 0;
  return shape;
}

Shape Draw::per_axis(int axes, Index lo, Index hi) {
  if (one_in(5)) return {in(lo, hi)};
  Shape list;
  for (int a = 0; a < axes; ++a) list.push_back(in(lo, hi));
  return list;
}

std::vector<int> Draw::some_dims(int dims, int least) {
  std::vector<int> all(static_cast<std::size_t>(dims));
  for (int d = 0; d < dims; ++d) all[static_cast<std::size_t>(d)] = one_in(2) ? d : d - dims;
  std::shuffle(all.begin(), all.end(), random_);
  all.resize(static_cast<std::size_t>(in(std::min(least, dims), dims)));
  return all;
}

Shape Draw::regrouped(const Shape& shape) {
  Shape result;
  bool open = false;  // whether the last extent may still grow
  for (const Index extent : shape) {
    for (Index rest = extent, prime = 2; rest > 1; ++prime) {
      for (; rest % prime == 0; rest /= prime) {
        if (open && (one_in(2) || result.size() >= 6)) {
          result.back() *= prime;
        } else {
          result.push_back(prime);
        }
        open = true;
      }
    }
    if (one_in(8) && result.size() < 6) {
      result.push_back(1);
      open = false;
    }
  }
  return result;
}

Values Draw::values(Index count) {
  return values(count, -1, 1);
}

Values Draw::values(Index count, double lo, double hi) {
  Values values = testing::random_values(random_, count);
  for (double& v : values) v = static_cast<float>(lo + (hi - lo) * (v + 1) / 2);
  return values;
}

Values Draw::distinct(Index count) {
  Values values;
  for (Index i = 0; i < count; ++i) {
    const double step = 2.0 / static_cast<double>(count);
    values.push_back(static_cast<float>(-1 + step * (static_cast<double>(i) + this->values(1, 0, 0.5)[0])));
  }
  std::shuffle(values.begin(), values.end(), random_);
  return values;
}

Values Draw::levels(Index count) {
  Values values = integers(count, -2, 2);
  for (double& v : values) v /= 4;
  return values;
}

Values Draw::integers(Index count, Index lo, Index hi) {
  Values values;
  for (Index i = 0; i < count; ++i) values.push_back(static_cast<double>(in(lo, hi)));
  return values;
}

OperatorCase::Operand& Sample::operand(std::string name, const Shape& shape, Values values) {
  operands.push_back({std::move(name), shape, std::move(values), testing::all_dims(shape)});
  operands.back().partial = true;
  return operands.back();
}

OperatorCase::Operand& Sample::whole(std::string name, const Shape& shape, Values values) {
  operands.push_back({std::move(name), shape, std::move(values), {}});
  return operands.back();
}

OperatorCase::Operand& Sample::constant(std::string name, const Shape& shape, Values values, DType type) {
  operands.push_back({std::move(name), shape, std::move(values), testing::all_dims(shape), false, type});
  return operands.back();
}

const Table& table() {
  static const Table made = [] {
    Table t;
    add_windowed(t);
    add_padding(t);
    add_attention(t);
    add_elementwise(t);
    add_reductions(t);
    add_dense(t);
    add_norms(t);
    add_shape(t);
    add_selection(t);
    add_redistribution(t);
    add_chains(t);
    return t;
  }();
  return made;
}

std::string text_of(bool value) {
  return value ? "true" : "false";
}

}  // namespace tessera::property
