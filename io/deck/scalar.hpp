#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// Seconds of `hh:mm:ss`, `d-hh:mm:ss` (as Slurm writes it) or a number of seconds; nothing if `text` is none
/// of these.
std::optional<double> parse_duration(std::string_view text);

namespace deck_detail {

/// true, false, yes, no, on, off, in any case of letters.
std::optional<bool> parse_boolean(std::string_view text);

/// A decimal integer, or a number such as 1e6 that is one exactly.
std::optional<std::int64_t> parse_integer(std::string_view text);

/// A decimal number, or `.inf`, `-.inf`, `.nan` (the dot may be left out).
std::optional<double> parse_real(std::string_view text);

/// The shortest text that parse_real() reads back as the same number.
std::string format_real(double value);

/// Empty, `~` or `null`: what YAML takes for no value.
bool is_null_text(std::string_view text);

/// `text` fit for a message: in single quotes, shortened, without control characters.
std::string quoted(std::string_view text);

}  // namespace deck_detail
}  // namespace tessera
