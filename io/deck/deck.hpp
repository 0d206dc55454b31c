#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/deck/check.hpp"
#include "io/deck/schema.hpp"
#include "parallel/error.hpp"

namespace tessera {

/// The text of a deck and what messages call it (its file name).
struct DeckText {
  std::string name;
  std::string text;
};

/// Reads a deck file. Throws Error(usage) if it cannot be read or is larger than a deck may be.
DeckText read_deck_file(const std::string& path);

/// A deck that its schema has checked: every key has a value of its type, or is null where it may be. A cheap
/// handle that shares the values; section() gives handles to parts. Paths are relative to the handle and may
/// use `.` or `/`.
///
///   const Deck deck = Deck::parse(schema, {read_deck_file("train.yaml")}, {"optimiser.lr=3e-4",
///   "fields.0.name=u"}); const auto steps = deck.get<Index>("steps"); const double lr =
///   deck.get<double>("optimiser.lr"); if (deck.has("walltime")) stop_after(deck.get<double>("walltime")); //
///   seconds for (const Deck& field : deck.sections("fields")) read(field.get<std::string>("name")); const
///   Deck mesh = deck.section("mesh"); for (const std::string& axis : mesh.keys()) add(axis,
///   mesh.get<int>(axis)); if (product != ranks) throw deck.error("mesh", "the axes' product is {}, expected
///   {} ranks", product, ranks);
class Deck {
 public:
  /// Lays `texts` over one another, the later ones updating the earlier ones (for a restart: the checkpoint's
  /// resolved deck, then the deck), applies the overrides `key.path=value` in their order and checks the
  /// result. Throws Error(usage): up to 20 faults at once, each with file, line, column, key, found and
  /// expected.
  static Deck parse(const Schema& schema, const std::vector<DeckText>& texts,
                    const std::vector<std::string>& overrides = {});

  /// Whether the key, and all that it stands in, has a value; false if it is null or an optional section is
  /// absent.
  bool has(std::string_view path) const;

  /// Whether the deck or an override gave the key; false if its value is a default.
  bool given(std::string_view path) const;

  /// The value: bool, an integer type, float or double (durations in seconds), std::string, or a vector of
  /// these, also nested. Throws Error(usage) if the key is null or too large for T, Error(internal) if the
  /// schema has no such key or gives it another type.
  template <typename T>
  T get(std::string_view path) const {
    T value{};
    convert(find_value(path), value);
    return value;
  }

  /// The value, or nothing if the key has none.
  template <typename T>
  std::optional<T> find(std::string_view path) const {
    return has(path) ? std::optional<T>(get<T>(path)) : std::nullopt;
  }

  /// Maps a choice to the caller's enumeration.
  template <typename E>
  E choose(std::string_view path, std::initializer_list<std::pair<std::string_view, E>> meanings) const {
    const auto name = get<std::string>(path);
    for (const auto& [candidate, value] : meanings) {
      if (candidate == name) return value;
    }
    throw error(path, "'{}' is not available here", name);
  }

  /// A section, map or list. Throws Error(usage) if it is null.
  Deck section(std::string_view path) const;
  std::optional<Deck> find_section(std::string_view path) const;

  /// The sections of a list or map, in the order written; none if it is null.
  std::vector<Deck> sections(std::string_view path) const;

  /// Of this section the keys of the schema; of a map the names written; of a list "0", "1", ...
  std::vector<std::string> keys() const;
  std::size_t size() const { return node_->children.size(); }

  /// The last part of path(): of an entry of a map its name, of a list its index.
  std::string name() const;
  const std::string& path() const { return path_; }  ///< from the top of the deck

  /// What messages call the place where the key was given, for example `deck train.yaml:3:7`.
  std::string where(std::string_view path) const;

  /// To be thrown by checks that the schema cannot express: `[deck train.yaml:3:7] mesh.ddp: ...`.
  template <typename... Args>
  Error error(std::string_view path, fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(path, fmt::format(format, std::forward<Args>(args)...));
  }

  /// YAML of all values, defaults included. It is a deck of the same schema and gives the same values, to the
  /// last bit.
  std::string resolved() const;

 private:
  struct Tree {
    std::vector<std::string> sources;
    deck_detail::DeckNode root;
  };
  struct Value {
    const Deck& deck;
    const deck_detail::DeckNode& node;
    std::string path;  ///< relative to `deck`
  };

  Deck(std::shared_ptr<const Tree> tree, const deck_detail::DeckNode* node, std::string path)
      : tree_(std::move(tree)), node_(node), path_(std::move(path)) {}

  std::string full(std::string_view path) const;
  const deck_detail::DeckNode& find_node(
      std::string_view path) const;  ///< may be null or inside a null section
  Value find_value(std::string_view path) const;
  Error make_error(std::string_view path, const std::string& text) const;

  static void convert(const Value& value, bool& result);
  static void convert(const Value& value, double& result);
  static void convert(const Value& value, float& result);
  static void convert(const Value& value, std::string& result);
  static std::int64_t integer(const Value& value, std::int64_t lowest, std::int64_t highest);
  static const std::vector<std::pair<std::string, deck_detail::DeckNode>>& entries(const Value& value);

  template <std::integral T>
  static void convert(const Value& value, T& result) {
    constexpr bool wide = sizeof(T) == sizeof(std::int64_t);
    constexpr auto lowest = std::is_unsigned_v<T> ? 0 : std::int64_t{std::numeric_limits<T>::lowest()};
    constexpr auto highest = wide ? std::numeric_limits<std::int64_t>::max()
                                  : static_cast<std::int64_t>(std::numeric_limits<T>::max());
    result = static_cast<T>(integer(value, lowest, highest));
  }

  template <typename T>
  static void convert(const Value& value, std::vector<T>& result) {
    for (const auto& [name, node] : entries(value)) {
      T item{};
      convert(Value{value.deck, node, value.path + "." + name}, item);
      result.push_back(std::move(item));
    }
  }

  std::shared_ptr<const Tree> tree_;
  const deck_detail::DeckNode* node_;
  std::string path_;
};

}  // namespace tessera
