#include "io/deck/help.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace tessera {
namespace {

struct Table {
  std::string title;  ///< the section's path, and the variant if it is one
  std::string help;
  std::string prefix;  ///< of the keys' paths
  std::vector<const SchemaKey*> keys;
};

void collect(const Section& section, Table table, std::vector<Table>& tables);

/// The tables of what lies below a key.
void collect_below(const SchemaKey& key, const std::string& path, const std::string& help,
                   std::vector<Table>& tables) {
  if (key.type() == KeyType::section) collect(key.section(), {path, help, path + ".", {}}, tables);
  if (key.type() == KeyType::list) collect_below(key.item(), path + ".<index>", help, tables);
  if (key.type() == KeyType::map) collect_below(key.item(), path + ".<name>", help, tables);
}

void collect(const Section& section, Table table, std::vector<Table>& tables) {
  for (const SchemaKey& key : section.keys()) table.keys.push_back(&key);
  const std::string prefix = table.prefix;
  const auto keys = table.keys;
  if (!keys.empty()) tables.push_back(std::move(table));
  for (const SchemaKey* key : keys) collect_below(*key, prefix + key->name(), key->help(), tables);
  for (const auto& variant : section.variants()) {
    const std::string title = prefix + section.selector()->name() + ": " + variant.name;
    collect(variant.section, {title, variant.help, prefix, {}}, tables);
  }
}

std::vector<Table> tables_of(const Schema& schema) {
  std::vector<Table> tables;
  collect(schema.root(), {"", "", "", {}}, tables);
  return tables;
}

std::string bounds_text(const SchemaKey& key) {
  std::string text = key.range_text();
  if (const std::string length = key.length_text(); !length.empty())
    text += (text.empty() ? "" : ", ") + length;
  return text;
}

std::string presence_text(const SchemaKey& key) {
  if (key.default_value()) return "default " + key.default_text();
  if (key.is_optional()) return "optional";
  return key.is_required() ? "required" : "";
}

/// `text` in lines of at most `width` characters, each after the first behind `indent` spaces.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (column > 0 && column + 1 + word.size() > width) {
      result += "\n" + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) result += ' ', ++column;
    result += word;
    column += word.size();
    begin = end + 1;
  }
  return result;
}

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

std::string code(const std::string& text) {
  return text.empty() ? text : "`" + text + "`";
}

}  // namespace

std::string help(const Schema& schema) {
  constexpr std::size_t width = 100;
  constexpr std::size_t margin = 32;
  std::string out = schema.title() + "\n";
  for (const Table& table : tables_of(schema)) {
    out += "\n";
    if (!table.title.empty())
      out += table.title + (table.help.empty() ? "" : "  (" + table.help + ")") + "\n";
    for (const SchemaKey* key : table.keys) {
      std::string facts = key->expected();
      if (const std::string presence = presence_text(*key); !presence.empty()) facts += "; " + presence;
      const std::string name = "  " + table.prefix + key->name();
      const bool fits = name.size() + 2 <= margin;
      out += name + (fits ? std::string(margin - name.size(), ' ') : "\n" + std::string(margin, ' '));
      out += wrapped(facts, width - margin, margin) + "\n";
      if (key->help().empty()) continue;
      out += std::string(margin, ' ') + wrapped(key->help(), width - margin, margin) + "\n";
    }
  }
  return out;
}

std::string help_markdown(const Schema& schema) {
  std::string out = "# " + schema.title() + "\n";
  for (const Table& table : tables_of(schema)) {
    if (!table.title.empty()) out += "\n## " + code(table.title) + "\n";
    if (!table.help.empty()) out += "\n" + table.help + "\n";
    out += "\n| key | type | unit | default | range | help |\n|---|---|---|---|---|---|\n";
    for (const SchemaKey* key : table.keys) {
      const std::string presence =
          key->default_value() ? code(cell(key->default_text())) : presence_text(*key);
      out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", code(table.prefix + key->name()),
                         cell(key->type_text()), cell(key->unit()), presence, cell(bounds_text(*key)),
                         cell(key->help()));
    }
  }
  return out;
}

}  // namespace tessera
