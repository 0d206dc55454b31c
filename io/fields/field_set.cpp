#include "io/fields/field_set.hpp"

#include <algorithm>
#include <cctype>

#include "io/hint.hpp"

namespace tessera {

EdgeKind parse_edge_kind(std::string_view text, const std::string& where) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const EdgeKind kind : {EdgeKind::wall, EdgeKind::open, EdgeKind::periodic}) {
    if (lower == name_of(kind)) return kind;
  }
  fail(ExitCode::input_file, where, "boundary: found '{}', expected periodic, wall or open", text);
}

std::string_view name_of(EdgeKind kind) {
  constexpr std::string_view names[] = {"wall", "open", "periodic"};
  return names[static_cast<int>(kind)];
}

Shape FieldSet::grid() const {
  Shape grid;
  for (const GridAxis& axis : axes) grid.push_back(static_cast<Index>(axis.coordinates.size()));
  return grid;
}

int FieldSet::channel(std::string_view channel_name) const {
  std::vector<std::string> names;
  for (const Channel& c : channels) names.push_back(c.name);
  const auto found = std::find(names.begin(), names.end(), channel_name);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  fail(ExitCode::input_file, name, "no channel '{}'{}", channel_name, nearest_hint(channel_name, names));
}

std::vector<std::string> component_names(const std::string& field, int order, int extent,
                                         const std::vector<std::string>& axes) {
  auto label = [&](int i) {
    const bool named = static_cast<std::size_t>(extent) == axes.size();
    return named ? axes[static_cast<std::size_t>(i)] : std::to_string(i);
  };
  std::vector<std::string> names;
  if (order == 0) names.push_back(field);
  for (int i = 0; order > 0 && i < extent; ++i) {
    if (order == 1) names.push_back(field + "_" + label(i));
    for (int j = 0; order == 2 && j < extent; ++j) names.push_back(field + "_" + label(i) + label(j));
  }
  return names;
}

}  // namespace tessera
