#include "io/deck/scalar.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace tessera {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

template <typename T>
std::optional<T> from_text(std::string_view text) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace

std::optional<double> parse_duration(std::string_view text) {
  if (text.find(':') == std::string_view::npos) {
    const auto seconds = deck_detail::parse_real(text);
    return seconds && std::isfinite(*seconds) && *seconds >= 0 ? seconds : std::nullopt;
  }
  double days = 0;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const std::string_view front = text.substr(0, dash);
    if (!is_digits(front) || front.size() > 6) return std::nullopt;
    days = *from_text<int>(front);
    text.remove_prefix(dash + 1);
  }
  std::array<double, 3> parts{};  // hours, minutes, seconds
  for (std::size_t i = 0; i < 3; ++i) {
    const auto colon = text.find(':');
    if ((colon == std::string_view::npos) != (i == 2)) return std::nullopt;
    const std::string_view part = text.substr(0, colon);
    if (!is_digits(part) || part.size() > (i == 0 ? 6U : 2U)) return std::nullopt;
    parts[i] = *from_text<int>(part);
    if (i > 0 && parts[i] >= 60) return std::nullopt;
    if (i < 2) text.remove_prefix(colon + 1);
  }
  return ((days * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2];
}

namespace deck_detail {

std::optional<bool> parse_boolean(std::string_view text) {
  if (text.size() > 5) return std::nullopt;
  const std::string word = lower(text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  if (const auto value = from_text<std::int64_t>(text)) return value;
  const auto real = parse_real(text);
  constexpr double exact = 9007199254740992.0;  // 2^53: beyond it a double skips integers
  if (!real || !(std::abs(*real) <= exact) || *real != std::floor(*real)) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

std::optional<double> parse_real(std::string_view text) {
  double sign = 1;
  std::string_view body = text;
  if (!body.empty() && (body[0] == '+' || body[0] == '-')) {
    sign = body[0] == '-' ? -1 : 1;
    body.remove_prefix(1);
  }
  const std::string word = body.size() <= 4 ? lower(body) : std::string();
  if (word == ".inf" || word == "inf") return sign * std::numeric_limits<double>::infinity();
  if (word == ".nan" || word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (body.empty() || (body[0] != '.' && (body[0] < '0' || body[0] > '9'))) return std::nullopt;
  const auto value = from_text<double>(body);
  if (!value) return std::nullopt;
  return sign * *value;
}

std::string format_real(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  return fmt::format("{}", value);
}

bool is_null_text(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string shown(text.substr(0, longest));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return "'" + shown + (text.size() > longest ? "...'" : "'");
}

}  // namespace deck_detail
}  // namespace tessera
