#include "io/deck/schema.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "parallel/error.hpp"

namespace tessera {
namespace {

using deck_detail::format_real;
using deck_detail::RawNode;

std::string flow_text(const RawNode& node) {
  switch (node.kind) {
    case RawNode::Kind::null:
      return "null";
    case RawNode::Kind::scalar:
      return node.text.empty() ? "''" : node.text;
    case RawNode::Kind::list: {
      std::vector<std::string> items;
      for (const RawNode& item : node.items) items.push_back(flow_text(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    case RawNode::Kind::map:
      break;
  }
  std::vector<std::string> members;
  for (const auto& member : node.members) members.push_back(member.name + ": " + flow_text(member.value));
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

void collect_paths(const Section& section, const std::string& prefix, std::vector<std::string>& paths);

void collect_paths(const SchemaKey& key, const std::string& path, std::vector<std::string>& paths) {
  if (key.type() == KeyType::section) {
    collect_paths(key.section(), path + ".", paths);
  } else if (key.type() == KeyType::list) {
    collect_paths(key.item(), path + ".<index>", paths);
  } else if (key.type() == KeyType::map) {
    collect_paths(key.item(), path + ".<name>", paths);
  }
}

void collect_paths(const Section& section, const std::string& prefix, std::vector<std::string>& paths) {
  for (const SchemaKey& key : section.keys()) {
    paths.push_back(prefix + key.name());
    collect_paths(key, prefix + key.name(), paths);
  }
  for (const auto& variant : section.variants()) collect_paths(variant.section, prefix, paths);
}

std::string plural(const std::string& type) {
  if (type == "list" || type == "integer" || type == "number" || type == "section") return type + "s";
  return type.starts_with("list of") ? "lists" + type.substr(4) : type;
}

}  // namespace

SchemaKey SchemaKey::item(SchemaKey item_of_list) {
  SchemaKey key({}, KeyType::list);
  key.item_.push_back(std::move(item_of_list));
  return key;
}

SchemaKey SchemaKey::item(const Describe& describe) {
  SchemaKey key({}, KeyType::section);
  describe(key.section_.emplace_back());
  return key;
}

SchemaKey& SchemaKey::help(std::string text) {
  help_ = std::move(text);
  return *this;
}

SchemaKey& SchemaKey::unit(std::string text) {
  entry().unit_ = std::move(text);
  return *this;
}

SchemaKey& SchemaKey::empty() {
  default_.emplace();
  default_->kind = type_ == KeyType::list ? RawNode::Kind::list : RawNode::Kind::map;
  return *this;
}

SchemaKey& SchemaKey::optional() {
  optional_ = true;
  return *this;
}

SchemaKey& SchemaKey::bounds(std::optional<double> low, bool open_low, std::optional<double> high,
                             bool open_high) {
  SchemaKey& key = entry();
  if (low) key.low_ = low, key.open_low_ = open_low;
  if (high) key.high_ = high, key.open_high_ = open_high;
  return *this;
}

SchemaKey& SchemaKey::non_finite() {
  entry().non_finite_ = true;
  return *this;
}

SchemaKey& SchemaKey::choices(std::vector<std::string> names) {
  entry().choices_ = std::move(names);
  return *this;
}

SchemaKey& SchemaKey::length(std::size_t fewest, std::size_t most) {
  fewest_ = fewest;
  most_ = most;
  return *this;
}

SchemaKey& SchemaKey::single_allowed() {
  single_allowed_ = true;
  return *this;
}

bool SchemaKey::is_required() const {
  return !default_ && !optional_ && type_ != KeyType::section;
}

bool SchemaKey::allows(double value) const {
  if (!std::isfinite(value) && !non_finite_) return false;
  if (std::isnan(value)) return true;
  if (low_ && (open_low_ ? value <= *low_ : value < *low_)) return false;
  return !(high_ && (open_high_ ? value >= *high_ : value > *high_));
}

bool SchemaKey::allows_length(std::size_t n) const {
  return fewest_ <= n && n <= most_;
}

std::string SchemaKey::type_text() const {
  switch (type_) {
    case KeyType::boolean:
      return "true | false";
    case KeyType::integer:
      return "integer";
    case KeyType::real:
      return "number";
    case KeyType::text:
      return "text";
    case KeyType::choice:
      return fmt::format("{}", fmt::join(choices_, " | "));
    case KeyType::duration:
      return "hh:mm:ss or seconds";
    case KeyType::list:
      return "list of " + plural(item().type_text());
    case KeyType::map:
      return "map from names to " + plural(item().type_text());
    case KeyType::section:
      break;
  }
  return "section";
}

std::string SchemaKey::range_text() const {
  if (!item_.empty()) return entry().range_text();
  if (low_ && high_) {
    return fmt::format("in {}{}, {}{}", open_low_ ? '(' : '[', format_real(*low_), format_real(*high_),
                       open_high_ ? ')' : ']');
  }
  if (low_) return (open_low_ ? "> " : ">= ") + format_real(*low_);
  if (high_) return (open_high_ ? "< " : "<= ") + format_real(*high_);
  return {};
}

std::string SchemaKey::length_text() const {
  constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();
  if (fewest_ == most_) return fmt::format("{} {}", most_, most_ == 1 ? "entry" : "entries");
  if (most_ != unbounded && fewest_ > 0) return fmt::format("{} to {} entries", fewest_, most_);
  if (most_ != unbounded) return fmt::format("at most {} entries", most_);
  return fewest_ > 0 ? fmt::format("at least {} {}", fewest_, fewest_ == 1 ? "entry" : "entries")
                     : std::string();
}

std::string SchemaKey::default_text() const {
  return default_ ? flow_text(*default_) : std::string();
}

std::string SchemaKey::expected() const {
  std::string text = type_text();
  const std::string range = range_text();
  if (!range.empty()) text += " " + range;
  if (!unit().empty()) text += " (" + unit() + ")";
  if (const std::string entries = length_text(); !entries.empty()) text += ", " + entries;
  return text;
}

SchemaKey& Section::add(std::string name, KeyType type) {
  require(!find(name), "schema", "the key '{}' is declared twice", name);
  for (const Variant& variant : variants_) {
    require(!variant.section.find_anywhere(name), "schema",
            "the key '{}' is declared twice, once in variant '{}'", name, variant.name);
  }
  return keys_.emplace_back(std::move(name), type);
}

SchemaKey& Section::choice(std::string name, std::vector<std::string> names) {
  return add(std::move(name), KeyType::choice).choices(std::move(names));
}

SchemaKey& Section::list(std::string name, SchemaKey item) {
  SchemaKey& key = add(std::move(name), KeyType::list);
  key.item_.push_back(std::move(item));
  return key;
}

SchemaKey& Section::map(std::string name, SchemaKey item) {
  SchemaKey& key = add(std::move(name), KeyType::map);
  key.item_.push_back(std::move(item));
  return key;
}

SchemaKey& Section::section(std::string name, const Describe& describe) {
  SchemaKey& key = add(std::move(name), KeyType::section);
  describe(key.section_.emplace_back());
  return key;
}

SchemaKey& Section::sections(std::string name, const Describe& describe) {
  return list(std::move(name), SchemaKey::item(describe));
}

SchemaKey& Section::named_sections(std::string name, const Describe& describe) {
  return map(std::move(name), SchemaKey::item(describe));
}

SchemaKey& Section::selector(std::string name) {
  require(selector_.empty(), "schema", "a section has one selector: found '{}' and '{}'", selector_, name);
  selector_ = name;
  return add(std::move(name), KeyType::choice);
}

void Section::variant(std::string name, const Describe& describe, std::string help) {
  require(!selector_.empty(), "schema", "variant '{}' is declared before the section's selector", name);
  require(!find_variant(name), "schema", "variant '{}' is declared twice", name);
  Section section;
  describe(section);
  for (const SchemaKey& key : keys_) {
    require(!section.find_anywhere(key.name()), "schema",
            "the key '{}' is declared twice, once in variant '{}'", key.name(), name);
  }
  const auto key =
      std::find_if(keys_.begin(), keys_.end(), [&](const auto& k) { return k.name() == selector_; });
  key->choices_.push_back(name);
  variants_.push_back({std::move(name), std::move(help), std::move(section)});
}

const SchemaKey* Section::find(std::string_view name) const {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const auto& key) { return key.name() == name; });
  return found == keys_.end() ? nullptr : &*found;
}

const Section::Variant* Section::find_variant(std::string_view name) const {
  const auto found =
      std::find_if(variants_.begin(), variants_.end(), [&](const auto& v) { return v.name == name; });
  return found == variants_.end() ? nullptr : &*found;
}

const SchemaKey* Section::find_anywhere(std::string_view name) const {
  const SchemaKey* found = find(name);
  for (auto variant = variants_.begin(); !found && variant != variants_.end(); ++variant) {
    found = variant->section.find_anywhere(name);
  }
  return found;
}

std::vector<std::string> Schema::paths() const {
  std::vector<std::string> paths;
  collect_paths(root(), "", paths);
  return paths;
}

}  // namespace tessera
