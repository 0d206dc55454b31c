#pragma once

#include <string>
#include <vector>

#include "io/deck/raw.hpp"
#include "io/deck/schema.hpp"

namespace tessera::deck_detail {

/// The faults found in a deck and its overrides, so that one run reports them all.
class Problems {
 public:
  static constexpr std::size_t most = 20;

  /// @param sources what messages call the deck texts and overrides that marks count
  Problems(const Schema& schema, const std::vector<std::string>& sources)
      : schema_(schema), sources_(sources) {}

  /// Throws the Error at once when there are `most` of them.
  void add(const Mark& mark, std::string text);

  /// Adds that `path` is no key, and what its writer may have meant: one of `siblings` (names of valid keys
  /// beside it), else a key elsewhere in the schema.
  void add_unknown(const Mark& mark, const std::string& path, const std::vector<std::string>& siblings);

  /// Throws Error(usage) with every fault, one a line, in the order of the text.
  void throw_if_any();

 private:
  struct Problem {
    Mark mark;
    std::string text;
  };

  std::string guess(const std::string& path, const std::vector<std::string>& siblings) const;

  const Schema& schema_;
  const std::vector<std::string>& sources_;
  std::vector<Problem> problems_;
};

/// What messages call the place of `mark`.
std::string place_of(const std::vector<std::string>& sources, const Mark& mark);

}  // namespace tessera::deck_detail
