#include <set>
#include <utility>

#include "app/data_deck.hpp"
#include "io/statistics/moments.hpp"

namespace tessera {
namespace {

Normalisation standard(std::span<const Moments> moments) {
  Normalisation n;
  for (const Moments& m : moments) {
    n.mean.push_back(m.mean);
    n.std.push_back(m.deviation());
  }
  return n;
}

Normalisation identity(std::size_t channels) {
  return {std::vector<double>(channels, 0.0), std::vector<double>(channels, 1.0)};
}

/// Every time step that a training sample sees or predicts, in order.
std::vector<SampleId> training_steps(const DataSet& data) {
  std::set<std::pair<Index, Index>> steps;
  for (const SampleId& s : data.split(SplitName::train).samples) {
    steps.emplace(s.trajectory, s.step);
    for (Index lag : data.spec.lags) steps.emplace(s.trajectory, s.step - lag);
  }
  std::vector<SampleId> result;
  for (const auto& [trajectory, step] : steps) result.push_back({trajectory, step});
  return result;
}

}  // namespace

DataNormalisation measure_normalisation(const DataSet& data, const Mesh& mesh, const Layout& grid) {
  const std::size_t fields = data.spec.fields.size(), constants = data.spec.constants.size();
  if (!data.normalise) return {identity(fields), identity(constants)};
  FieldSource& source = *data.split(SplitName::train).source;
  std::vector<int> channels;
  for (const std::string& name : data.spec.fields) channels.push_back(source.fields().channel(name));
  for (const std::string& name : data.spec.constants) channels.push_back(source.fields().channel(name));
  const Box& whole = grid.local_box();
  const Box box(whole.begin() + 1, whole.end() - 1);
  std::vector<Moments> moments(channels.size());
  std::vector<float> values(static_cast<std::size_t>(box.volume()) * channels.size());
  const std::vector<SampleId> steps = training_steps(data);
  const auto ddp = static_cast<std::size_t>(mesh.axis_size("ddp"));
  for (auto i = static_cast<std::size_t>(mesh.coords()[mesh.axis("ddp")]); i < steps.size(); i += ddp) {
    source.read(steps[i].trajectory, steps[i].step, channels, box, values.data());
    add_cells(moments, values.data(), box.volume());
  }
  all_merge(mesh.comm(), moments);
  const std::span<const Moments> all = moments;
  return {standard(all.first(fields)), standard(all.subspan(fields))};
}

}  // namespace tessera
