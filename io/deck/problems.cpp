#include "io/deck/problems.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/ranges.h>

#include "io/deck/nearest.hpp"
#include "io/deck/scalar.hpp"
#include "parallel/error.hpp"

namespace tessera::deck_detail {
namespace {

std::string leaf(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

}  // namespace

std::string place_of(const std::vector<std::string>& sources, const Mark& mark) {
  if (mark.source < 0 || static_cast<std::size_t>(mark.source) >= sources.size()) return "deck";
  return located(sources[static_cast<std::size_t>(mark.source)], mark);
}

void Problems::add(const Mark& mark, std::string text) {
  problems_.push_back({mark, std::move(text)});
  if (problems_.size() >= most) throw_if_any();
}

std::string Problems::guess(const std::string& path, const std::vector<std::string>& siblings) const {
  const std::string name = leaf(path);
  const std::string prefix = path.substr(0, path.size() - name.size());
  if (const std::string near = nearest(name, siblings); !near.empty()) return prefix + near;
  const std::vector<std::string> paths = schema_.paths();
  std::vector<std::string> leaves;
  for (const std::string& candidate : paths) leaves.push_back(leaf(candidate));
  const auto path_of_leaf = [&](const std::string& wanted) {
    const auto found = std::find(leaves.begin(), leaves.end(), wanted);
    return found == leaves.end() ? std::string() : paths[static_cast<std::size_t>(found - leaves.begin())];
  };
  if (const std::string elsewhere = path_of_leaf(name); !elsewhere.empty() && elsewhere != path)
    return elsewhere;
  if (const std::string near = nearest(path, paths); !near.empty() && near != path) return near;
  const std::string near = nearest(name, leaves);
  return near.empty() ? near : path_of_leaf(near);
}

void Problems::add_unknown(const Mark& mark, const std::string& path,
                           const std::vector<std::string>& siblings) {
  constexpr std::size_t most_listed = 12;
  std::string text = "unknown key " + quoted(path);
  if (const std::string meant = guess(path, siblings); !meant.empty()) {
    text += fmt::format(": did you mean '{}'?", meant);
  } else if (!siblings.empty() && siblings.size() <= most_listed) {
    text += fmt::format(": expected one of {}", fmt::join(siblings, ", "));
  } else {
    text += ": there is none of a similar name";
  }
  add(mark, std::move(text));
}

void Problems::throw_if_any() {
  if (problems_.empty()) return;
  const auto order = [](const Mark& m) { return std::tuple(m.source, m.line, m.column); };
  std::stable_sort(problems_.begin(), problems_.end(),
                   [&](const Problem& a, const Problem& b) { return order(a.mark) < order(b.mark); });
  std::string text = problems_.front().text;
  for (std::size_t i = 1; i < problems_.size(); ++i) {
    text += fmt::format("\n[{}] {}", place_of(sources_, problems_[i].mark), problems_[i].text);
  }
  if (problems_.size() >= most) text += "\nThere may be more faults: these are the first found.";
  throw Error(ExitCode::usage, place_of(sources_, problems_.front().mark), text);
}

}  // namespace tessera::deck_detail
