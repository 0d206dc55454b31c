#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/deck/raw.hpp"

// The schema of a deck: every key's type, unit, default, range and help, declared beside the code that reads
// it.
//
//   void describe_optimiser(Section& s) {
//     s.selector("type").defaults("adamw").help("update rule");
//     s.real("lr").above(0).defaults(1e-3).help("peak learning rate");
//     s.variant("sgd", [](Section& v) { v.real("momentum").range(0, 1).defaults(0.9).help("velocity kept");
//     }); s.variant("adamw", [](Section& v) { v.real("weight_decay").min(0).defaults(0.01).help("decoupled
//     decay"); });
//   }
//   void describe_field(Section& s) {
//     s.text("name").help("name in the output");
//     s.integers("shape").length(1, 3).min(1).help("grid points per axis");
//   }
//   const Schema schema("A deck of `tessera train`", [](Section& s) {
//     s.integer("steps").min(1).help("updates of the weights");                // no default: required
//     s.duration("walltime").optional().help("stop after this long");          // absent or null: has() is
//     false s.section("optimiser", describe_optimiser).help("how weights move");     // absent: all its
//     defaults s.section("ema", describe_ema).optional().help("averaged weights");      // absent or null:
//     not wanted s.sections("fields", describe_field).length(1, 64).help("channels");     // a list of
//     sections s.map("mesh", SchemaKey::item(KeyType::integer)).empty().help("axes");   // free names,
//     integers
//   });
//
// io/deck/deck.hpp reads a deck against it, io/deck/help.hpp prints it.
namespace tessera {

enum class KeyType { boolean, integer, real, text, choice, duration, list, map, section };

class Section;
using Describe = std::function<void(Section&)>;

/// One key of a deck. The setters return the key, so that a declaration is one sentence.
class SchemaKey {
 public:
  SchemaKey(std::string name, KeyType type) : name_(std::move(name)), type_(type) {}

  /// The type of the entries of a list or a map.
  static SchemaKey item(KeyType type) { return SchemaKey({}, type); }
  static SchemaKey item(SchemaKey item_of_list);  ///< a list in a list or in a map
  static SchemaKey item(const Describe& describe);

  SchemaKey& help(std::string text);
  SchemaKey& unit(std::string text);  ///< "s", "m/s"; of the entries where the key is a list or a map

  /// The value where the deck gives none: bool, numbers, text, vectors of them, and for maps a vector of
  /// pairs.
  template <typename T>
  SchemaKey& defaults(const T& value) {
    default_ = deck_detail::raw_value(value);
    return *this;
  }
  SchemaKey& empty();     ///< a list or map without entries is the default
  SchemaKey& optional();  ///< may be absent or null; a section then stands for something not wanted

  /// Bounds of a number or duration (seconds), or of a list's or map's entries.
  SchemaKey& min(double bound) { return bounds(bound, false, {}, false); }
  SchemaKey& above(double bound) { return bounds(bound, true, {}, false); }
  SchemaKey& max(double bound) { return bounds({}, false, bound, false); }
  SchemaKey& below(double bound) { return bounds({}, false, bound, true); }
  SchemaKey& range(double lowest, double highest) { return bounds(lowest, false, highest, false); }
  SchemaKey& non_finite();  ///< infinity and NaN are values too

  SchemaKey& choices(std::vector<std::string> names);

  SchemaKey& length(std::size_t entries) { return length(entries, entries); }
  SchemaKey& length(std::size_t fewest, std::size_t most);
  SchemaKey& single_allowed();  ///< `kernel: 3` stands for `kernel: [3]`

  const std::string& name() const { return name_; }
  KeyType type() const { return type_; }
  const std::string& help() const { return help_; }
  const std::string& unit() const { return entry().unit_; }
  const std::optional<deck_detail::RawNode>& default_value() const { return default_; }
  bool is_optional() const { return optional_; }
  bool is_required() const;
  bool is_single_allowed() const { return single_allowed_; }
  const std::vector<std::string>& choices() const { return choices_; }
  const SchemaKey& item() const { return item_.front(); }  ///< of a list or a map
  const Section& section() const { return section_.front(); }

  bool allows(double value) const;          ///< of a number or duration
  bool allows_length(std::size_t n) const;  ///< of a list or a map

  std::string type_text() const;  ///< "list of integers", "vit | convnet"
  std::string range_text()
      const;  ///< ">= 0", "in (0, 1]"; empty without bounds; of the entries of a list or map
  std::string length_text() const;   ///< "1 to 3 entries"; empty without bounds
  std::string default_text() const;  ///< YAML in flow style; empty without a default
  std::string expected() const;      ///< type, range and unit in one phrase, for messages

 private:
  friend class Section;

  SchemaKey& bounds(std::optional<double> low, bool open_low, std::optional<double> high, bool open_high);
  SchemaKey& entry() { return item_.empty() ? *this : item_.front().entry(); }
  const SchemaKey& entry() const { return item_.empty() ? *this : item_.front().entry(); }

  std::string name_;
  KeyType type_;
  std::string help_;
  std::string unit_;
  std::optional<deck_detail::RawNode> default_;
  bool optional_ = false;
  bool single_allowed_ = false;
  bool non_finite_ = false;
  std::optional<double> low_, high_;
  bool open_low_ = false, open_high_ = false;
  std::size_t fewest_ = 0, most_ = std::numeric_limits<std::size_t>::max();
  std::vector<std::string> choices_;
  std::vector<SchemaKey> item_;   // none or one
  std::vector<Section> section_;  // none or one
};

/// A set of keys. With a selector, the value of that key adds the keys of one variant. A deck may write the
/// variant's name alone, `partition: even`, for `partition: {type: even}`.
class Section {
 public:
  struct Variant;

  SchemaKey& boolean(std::string name) { return add(std::move(name), KeyType::boolean); }
  SchemaKey& integer(std::string name) { return add(std::move(name), KeyType::integer); }
  SchemaKey& real(std::string name) { return add(std::move(name), KeyType::real); }
  SchemaKey& text(std::string name) { return add(std::move(name), KeyType::text); }
  SchemaKey& duration(std::string name) {
    return add(std::move(name), KeyType::duration);
  }  ///< read as seconds
  SchemaKey& choice(std::string name, std::vector<std::string> names);

  SchemaKey& booleans(std::string name) { return list(std::move(name), SchemaKey::item(KeyType::boolean)); }
  SchemaKey& integers(std::string name) { return list(std::move(name), SchemaKey::item(KeyType::integer)); }
  SchemaKey& reals(std::string name) { return list(std::move(name), SchemaKey::item(KeyType::real)); }
  SchemaKey& texts(std::string name) { return list(std::move(name), SchemaKey::item(KeyType::text)); }

  SchemaKey& list(std::string name, SchemaKey item);
  SchemaKey& map(std::string name, SchemaKey item);  ///< free names: letters, digits, `_`, `-`

  SchemaKey& section(std::string name, const Describe& describe);
  SchemaKey& sections(std::string name, const Describe& describe);  ///< a list of sections
  SchemaKey& named_sections(std::string name,
                            const Describe& describe);  ///< a map of sections under free names

  /// The key whose value, the name of a variant, decides which further keys there are.
  SchemaKey& selector(std::string name);
  void variant(std::string name, const Describe& describe, std::string help = {});

  const std::deque<SchemaKey>& keys() const { return keys_; }
  const std::vector<Variant>& variants() const { return variants_; }
  const SchemaKey* selector() const { return selector_.empty() ? nullptr : find(selector_); }
  const SchemaKey* find(std::string_view name) const;  ///< among the keys that every variant has
  const Variant* find_variant(std::string_view name) const;

  /// The key of that name in any variant, or null.
  const SchemaKey* find_anywhere(std::string_view name) const;

 private:
  SchemaKey& add(std::string name, KeyType type);

  std::deque<SchemaKey> keys_;
  std::string selector_;
  std::vector<Variant> variants_;
};

struct Section::Variant {
  std::string name;
  std::string help;
  Section section;
};

class Schema {
 public:
  Schema(std::string title, const Describe& describe)
      : title_(std::move(title)), root_(SchemaKey::item(describe)) {}

  const std::string& title() const { return title_; }
  const Section& root() const { return root_.section(); }
  const SchemaKey& root_key() const { return root_; }

  /// Every key with its path, in the order declared; entries of lists and maps as `fields.<index>.name`,
  /// `mesh.<name>`.
  std::vector<std::string> paths() const;

 private:
  std::string title_;
  SchemaKey root_;
};

}  // namespace tessera
