#include "io/deck/deck.hpp"

#include <cmath>
#include <fstream>

#include "io/deck/layers.hpp"
#include "io/deck/scalar.hpp"

namespace tessera {

using deck_detail::DeckNode;

namespace {

/// The parts of a path; `.` and `/` both divide it. An empty path has none.
std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const auto end = path.find_first_of("./");
    parts.emplace_back(path.substr(0, end));
    path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
  }
  return parts;
}

const char* type_of(const DeckNode& node) {
  switch (node.type) {
    case KeyType::boolean:
      return "a truth value";
    case KeyType::integer:
      return "an integer";
    case KeyType::real:
      return "a number";
    case KeyType::text:
      return "text";
    case KeyType::choice:
      return "a choice";
    case KeyType::duration:
      return "a duration";
    case KeyType::list:
      return "a list";
    case KeyType::map:
      return "a map";
    case KeyType::section:
      break;
  }
  return "a section";
}

[[noreturn]] void wrong_read(const std::string& path, const DeckNode& node, const char* wanted) {
  fail(ExitCode::internal, "deck", "'{}' is read as {}, but the schema makes it {}", path, wanted,
       type_of(node));
}

}  // namespace

DeckText read_deck_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ExitCode::usage, "deck " + path, "cannot read the file");
  constexpr std::size_t most = deck_detail::RawLimits::bytes;
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) fail(ExitCode::usage, "deck " + path, "cannot read the file");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most) {
    fail(ExitCode::usage, "deck " + path,
         "the file is too large: found more than {0} bytes, expected at most {0}", most);
  }
  return {path, std::move(text)};
}

Deck Deck::parse(const Schema& schema, const std::vector<DeckText>& texts,
                 const std::vector<std::string>& overrides) {
  auto tree = std::make_shared<Tree>();
  for (const DeckText& text : texts) tree->sources.push_back("deck " + text.name);
  const int first_override = static_cast<int>(texts.size());
  for (const std::string& text : overrides)
    tree->sources.push_back("command line " + deck_detail::quoted(text));

  deck_detail::Problems problems(schema, tree->sources);
  deck_detail::RawNode raw;
  for (int i = 0; i < first_override; ++i) {
    const auto at = static_cast<std::size_t>(i);
    auto layer = deck_detail::parse_yaml(texts[at].text, i, tree->sources[at]);
    if (layer.is_null()) layer.kind = deck_detail::RawNode::Kind::map;
    deck_detail::merge(schema.root_key(), raw, std::move(layer));
  }
  if (raw.is_null()) raw.kind = deck_detail::RawNode::Kind::map;
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    const int source = first_override + static_cast<int>(i);
    deck_detail::apply_override(schema, raw, overrides[i], source, first_override,
                                tree->sources[static_cast<std::size_t>(source)], problems);
  }
  const deck_detail::Mark start{first_override - 1, first_override > 0 ? 1 : 0, 1};
  tree->root = deck_detail::check(schema, raw, start, problems);
  problems.throw_if_any();
  const DeckNode* root = &tree->root;
  return Deck(std::move(tree), root, "");
}

std::string Deck::full(std::string_view path) const {
  std::string result = path_;
  for (const std::string& part : split(path)) result += (result.empty() ? "" : ".") + part;
  return result;
}

const DeckNode& Deck::find_node(std::string_view path) const {
  const DeckNode* node = node_;
  for (const std::string& part : split(path)) {
    if (node->null) return *node;
    const DeckNode* next = node->child(part);
    if (!next)
      fail(ExitCode::internal, "deck", "the program reads '{}', which is no key of the schema", full(path));
    node = next;
  }
  return *node;
}

Deck::Value Deck::find_value(std::string_view path) const {
  const DeckNode& node = find_node(path);
  if (node.null) throw error(path, "not set, but needed here");
  return {*this, node, std::string(path)};
}

bool Deck::has(std::string_view path) const {
  return !find_node(path).null;
}

bool Deck::given(std::string_view path) const {
  return find_node(path).given;
}

Deck Deck::section(std::string_view path) const {
  const Value value = find_value(path);
  if (!std::holds_alternative<std::monostate>(value.node.value))
    wrong_read(full(path), value.node, "a section");
  return Deck(tree_, &value.node, full(path));
}

std::optional<Deck> Deck::find_section(std::string_view path) const {
  return has(path) ? std::optional<Deck>(section(path)) : std::nullopt;
}

std::vector<Deck> Deck::sections(std::string_view path) const {
  std::vector<Deck> result;
  if (!has(path)) return result;
  const Deck holder = section(path);
  for (const std::string& name : holder.keys()) result.push_back(holder.section(name));
  return result;
}

std::vector<std::string> Deck::keys() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : node_->children) names.push_back(name);
  return names;
}

std::string Deck::name() const {
  return path_.substr(path_.rfind('.') + 1);
}

std::string Deck::where(std::string_view path) const {
  const DeckNode* node = node_;
  for (const std::string& part : split(path)) {
    const DeckNode* next = node->child(part);
    if (!next) break;
    node = next;
  }
  return deck_detail::place_of(tree_->sources, node->mark);
}

Error Deck::make_error(std::string_view path, const std::string& text) const {
  const std::string key = full(path);
  return Error(ExitCode::usage, where(path), key.empty() ? text : key + ": " + text);
}

void Deck::convert(const Value& value, bool& result) {
  const bool* flag = std::get_if<bool>(&value.node.value);
  if (!flag) wrong_read(value.deck.full(value.path), value.node, "a truth value");
  result = *flag;
}

void Deck::convert(const Value& value, double& result) {
  if (const auto* real = std::get_if<double>(&value.node.value)) {
    result = *real;
  } else if (const auto* whole = std::get_if<std::int64_t>(&value.node.value)) {
    result = static_cast<double>(*whole);
  } else {
    wrong_read(value.deck.full(value.path), value.node, "a number");
  }
}

void Deck::convert(const Value& value, float& result) {
  double wide = 0;
  convert(value, wide);
  result = static_cast<float>(wide);
  if (std::isinf(result) && std::isfinite(wide)) {
    throw value.deck.error(value.path, "too large: found {}, expected a number of single precision", wide);
  }
}

void Deck::convert(const Value& value, std::string& result) {
  const auto* text = std::get_if<std::string>(&value.node.value);
  if (!text) wrong_read(value.deck.full(value.path), value.node, "text");
  result = *text;
}

std::int64_t Deck::integer(const Value& value, std::int64_t lowest, std::int64_t highest) {
  const auto* whole = std::get_if<std::int64_t>(&value.node.value);
  if (!whole) wrong_read(value.deck.full(value.path), value.node, "an integer");
  if (*whole < lowest || *whole > highest) {
    throw value.deck.error(value.path, "out of range: found {}, expected {} to {}", *whole, lowest, highest);
  }
  return *whole;
}

const std::vector<std::pair<std::string, DeckNode>>& Deck::entries(const Value& value) {
  if (value.node.type != KeyType::list) wrong_read(value.deck.full(value.path), value.node, "a list");
  return value.node.children;
}

}  // namespace tessera
