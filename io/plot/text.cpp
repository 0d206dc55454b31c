// Measuring and breaking of lines of text.
#include <algorithm>

#include "io/plot/font.hpp"

namespace tessera::plot {
namespace {

double width_of(std::u32string_view text, bool bold) {
  double width = 0;
  for (const char32_t c : text) width += glyph(c).advance + (bold ? bold_pen_width - pen_width : 0);
  return width;
}

std::string encode_utf8(std::u32string_view text) {
  std::string out;
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  for (const char32_t c : text) {
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
    } else {
      put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
    }
  }
  return out;
}

// How many leading letters fit; at least one.
std::size_t fitting(std::u32string_view text, double width, bool bold) {
  std::size_t count = 1;
  while (count < text.size() && width_of(text.substr(0, count + 1), bold) <= width) ++count;
  return count;
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t extra = lead < 0x80 ? 0 : lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 4;
    char32_t code = extra == 0 ? lead : lead & (0x3Fu >> extra);
    bool good = extra < 4 && i + extra < text.size();
    for (std::size_t k = 1; good && k <= extra; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      good = (byte & 0xC0) == 0x80;
      code = code << 6 | (byte & 0x3F);
    }
    out.push_back(good ? code : U'\ufffd');
    i += good ? extra + 1 : 1;
  }
  return out;
}

double text_width(std::string_view text, bool bold) {
  return width_of(decode_utf8(text), bold);
}

std::vector<std::string> wrap_text(std::string_view text, double width, bool bold) {
  std::vector<std::string> lines;
  std::u32string rest = decode_utf8(text);
  while (!rest.empty()) {
    const std::size_t newline = rest.find(U'\n');
    const std::u32string_view line = std::u32string_view(rest).substr(0, newline);
    std::size_t count = line.empty() ? 0 : fitting(line, width, bold);
    if (count < line.size()) {
      const std::size_t space = line.rfind(U' ', count);
      if (space != std::u32string_view::npos && space > 0) count = space;
    }
    lines.push_back(encode_utf8(line.substr(0, count)));
    const bool separator = count < rest.size() && (rest[count] == U' ' || rest[count] == U'\n');
    rest.erase(0, count + (separator ? 1 : 0));
  }
  return lines;
}

std::string shorten_text(std::string_view text, double width, bool bold) {
  const std::u32string all = decode_utf8(text);
  if (width_of(all, bold) <= width) return std::string(text);
  for (std::size_t kept = all.size() - 1; kept > 0; --kept) {
    const std::size_t head = (kept + 1) / 2, tail = kept / 2;
    const std::u32string cut = all.substr(0, head) + U'\u2026' + all.substr(all.size() - tail);
    if (width_of(cut, bold) <= width) return encode_utf8(cut);
  }
  return {};
}

}  // namespace tessera::plot
