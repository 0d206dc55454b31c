#include "solver/train/sample.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {
namespace {

Box grid_box(const Layout& layout) {
  const Box& whole = layout.local_box();
  return Box(whole.begin() + 1, whole.end() - 1);
}

std::vector<int> channel_numbers(const FieldSource& source, const std::vector<std::string>& names) {
  std::vector<int> numbers;
  for (const std::string& name : names) numbers.push_back(source.fields().channel(name));
  return numbers;
}

/// Appends sin and cos of every harmonic of `x` to the list.
void append_harmonics(std::vector<float>& out, const Harmonics& h, double x) {
  for (Index k = 1; k <= h.count; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) * x / h.period;
    out.push_back(static_cast<float>(std::sin(angle)));
    out.push_back(static_cast<float>(std::cos(angle)));
  }
}

int find_axis(const FieldSet& fields, const std::string& name) {
  for (std::size_t a = 0; a < fields.axes.size(); ++a) {
    if (fields.axes[a].name == name) return static_cast<int>(a);
  }
  std::string names;
  for (const GridAxis& axis : fields.axes) names += (names.empty() ? "" : ", ") + axis.name;
  fail(ExitCode::usage, "data.inputs.coordinates", "no grid axis '{}', found {}", name, names);
}

/// The values of one coordinate input at every index of its axis: a row of one or more numbers each.
std::vector<std::vector<float>> coordinate_rows(const FieldSet& fields, const CoordinateInput& input,
                                                int axis) {
  const std::vector<double>& x = fields.axes[static_cast<std::size_t>(axis)].coordinates;
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  std::vector<std::vector<float>> rows;
  for (double value : x) {
    std::vector<float> row;
    if (input.scaled) {
      row.push_back(static_cast<float>(*high > *low ? 2 * (value - *low) / (*high - *low) - 1 : 0.0));
    } else {
      append_harmonics(row, input.harmonics, value);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Every coordinate input in every cell of `box`: (cells, numbers).
std::vector<float> coordinate_values(const FieldSet& fields, const std::vector<CoordinateInput>& inputs,
                                     const Box& box) {
  std::vector<int> axes;
  std::vector<std::vector<std::vector<float>>> rows;
  for (const CoordinateInput& input : inputs) {
    axes.push_back(find_axis(fields, input.axis));
    rows.push_back(coordinate_rows(fields, input, axes.back()));
  }
  std::vector<float> values;
  for (Index cell = 0; cell < box.volume(); ++cell) {
    for (std::size_t k = 0; k < rows.size(); ++k) {
      Index rest = cell;
      for (int d = box.size() - 1; d > axes[k]; --d) rest /= box[d].size();
      const Index at = box[axes[k]].lo + rest % box[axes[k]].size();
      const std::vector<float>& row = rows[k][static_cast<std::size_t>(at)];
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  return values;
}

}  // namespace

Index SampleSpec::longest_lag() const {
  Index longest = residual_lag;
  for (Index lag : lags) longest = std::max(longest, lag);
  return longest;
}

Index SampleSpec::input_channels() const {
  Index n = static_cast<Index>(lags.size() * fields.size() + constants.size());
  for (const CoordinateInput& c : coordinates) n += c.scaled ? 1 : 2 * c.harmonics.count;
  for (const Harmonics& h : calendars) n += 2 * h.count;
  return n;
}

double Normalisation::scale(std::size_t channel) const {
  return std::max(std[channel], 1e-4);
}

StepCache::StepCache(FieldSourcePtr source, std::vector<int> channels, Box box, std::size_t capacity_bytes)
    : source_(std::move(source)), channels_(std::move(channels)), box_(box), capacity_(capacity_bytes) {}

std::shared_ptr<const std::vector<float>> StepCache::step(Index trajectory, Index step) {
  const Key key{trajectory, step};
  if (const auto found = steps_.find(key); found != steps_.end()) return found->second;
  auto values =
      std::make_shared<std::vector<float>>(static_cast<std::size_t>(box_.volume()) * channels_.size());
  source_->read(trajectory, step, channels_, box_, values->data());
  const std::size_t bytes = std::max<std::size_t>(values->size() * sizeof(float), 1);
  while (!order_.empty() && (order_.size() + 1) * bytes > capacity_) {
    steps_.erase(order_.front());
    order_.pop_front();
  }
  steps_[key] = values;
  order_.push_back(key);
  return values;
}

SampleMaker::SampleMaker(FieldSourcePtr source, SampleSpec spec, Normalisation fields,
                         Normalisation constants, Layout grid, std::size_t cache_bytes)
    : source_(source),
      spec_(std::move(spec)),
      normalisation_(std::move(fields)),
      constant_normalisation_(std::move(constants)),
      grid_(grid),
      cells_(grid_box(grid).volume()),
      cache_(source, channel_numbers(*source, spec_.fields), grid_box(grid), cache_bytes),
      constant_cache_(source, channel_numbers(*source, spec_.constants), grid_box(grid), cache_bytes / 8),
      coordinates_(coordinate_values(source->fields(), spec_.coordinates, grid_box(grid))) {}

Layout SampleMaker::layout(Index channels) const {
  return grid_.with_extent(-1, channels);
}

std::vector<float> SampleMaker::normalised(Index trajectory, Index step) {
  std::vector<float> values = *cache_.step(trajectory, step);
  const std::size_t fields = spec_.fields.size();
  for (std::size_t c = 0; c < fields; ++c) {
    const float mean = static_cast<float>(normalisation_.mean[c]);
    const float factor = static_cast<float>(1.0 / normalisation_.scale(c));
    for (std::size_t i = c; i < values.size(); i += fields) values[i] = (values[i] - mean) * factor;
  }
  return values;
}

void SampleMaker::fill_fixed(Values& values) {
  std::vector<float> calendar;
  for (const Harmonics& h : spec_.calendars) append_harmonics(calendar, h, static_cast<double>(values.step));
  const std::size_t constants = spec_.constants.size();
  std::shared_ptr<const std::vector<float>> constant_values;
  if (constants > 0) constant_values = constant_cache_.step(values.trajectory, 0);
  const auto inputs = static_cast<std::size_t>(spec_.input_channels()),
             cells = static_cast<std::size_t>(cells_), lagged = spec_.lags.size() * spec_.fields.size(),
             coordinates = cells ? coordinates_.size() / cells : 0;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    float* row = values.input.data() + cell * inputs + lagged;
    for (std::size_t c = 0; c < constants; ++c) {
      const double x = (*constant_values)[cell * constants + c];
      *row++ = static_cast<float>((x - constant_normalisation_.mean[c]) / constant_normalisation_.scale(c));
    }
    row = std::copy_n(coordinates_.data() + cell * coordinates, coordinates, row);
    std::copy(calendar.begin(), calendar.end(), row);
  }
}

void SampleMaker::fill_lags(Values& values, Index first_state,
                            const std::vector<std::vector<float>>& states) {
  const std::size_t fields = spec_.fields.size(), inputs = static_cast<std::size_t>(spec_.input_channels());
  const auto cells = static_cast<std::size_t>(cells_);
  auto state = [&](Index step) {
    const Index i = step - first_state;
    return i >= 0 && i < static_cast<Index>(states.size()) ? states[static_cast<std::size_t>(i)]
                                                           : normalised(values.trajectory, step);
  };
  for (std::size_t l = 0; l < spec_.lags.size(); ++l) {
    const std::vector<float> lagged = state(values.step - spec_.lags[l]);
    for (std::size_t cell = 0; cell < cells; ++cell) {
      std::copy_n(&lagged[cell * fields], fields, &values.input[cell * inputs + l * fields]);
    }
  }
  if (spec_.residual_lag > 0) {
    values.base = state(values.step - spec_.residual_lag);
    for (float& x : values.base) x *= static_cast<float>(spec_.residual_factor);
  }
}

SampleMaker::Values SampleMaker::read(Index trajectory, Index step, bool with_target) {
  return read(trajectory, step, with_target, 0, {});
}

SampleMaker::Values SampleMaker::read(Index trajectory, Index step, bool with_target, Index first_state,
                                      const std::vector<std::vector<float>>& states) {
  require(step >= spec_.longest_lag(), "sample", "step {} has no history of {} steps", step,
          spec_.longest_lag());
  Values values;
  values.trajectory = trajectory;
  values.step = step;
  values.input.resize(static_cast<std::size_t>(cells_ * spec_.input_channels()));
  fill_lags(values, first_state, states);
  fill_fixed(values);
  if (with_target) values.target = normalised(trajectory, step);
  return values;
}

Sample SampleMaker::to_sample(const Values& values) const {
  auto tensor = [&](const std::vector<float>& v, Index channels) {
    return Tensor::from_host(std::span<const float>(v), layout(channels));
  };
  Sample sample;
  sample.trajectory = values.trajectory;
  sample.step = values.step;
  sample.input = tensor(values.input, spec_.input_channels());
  if (!values.target.empty() || cells_ == 0) sample.target = tensor(values.target, spec_.output_channels());
  if (spec_.residual_lag > 0) sample.base = tensor(values.base, spec_.output_channels());
  return sample;
}

}  // namespace tessera
