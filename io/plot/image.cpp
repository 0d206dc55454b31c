#include "io/plot/image.hpp"

#include <png.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <fstream>
#include <system_error>

#include "parallel/error.hpp"

namespace tessera::plot {
namespace {

constexpr Index max_side = 32768;

void append_bytes(png_structp png, png_bytep data, png_size_t count) {
  auto* bytes = static_cast<std::vector<std::uint8_t>*>(png_get_io_ptr(png));
  bool stored = true;
  try {
    bytes->insert(bytes->end(), data, data + count);
  } catch (const std::bad_alloc&) {
    stored = false;
  }
  if (!stored) png_error(png, "out of memory");
}

void no_flush(png_structp) {}

void ignore_warning(png_structp, png_const_charp) {}

void keep_message(png_structp png, png_const_charp message) {
  auto* text = static_cast<std::array<char, 128>*>(png_get_error_ptr(png));
  std::strncpy(text->data(), message, text->size() - 1);
  png_longjmp(png, 1);
}

// libpng reports errors with longjmp, so this function holds no object with a destructor.
bool encode_rows(png_structp png, png_infop info, const Image& image, png_textp text, int texts, double dpi) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width()), static_cast<png_uint_32>(image.height()),
               8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
  if (dpi > 0) {
    const auto per_metre = static_cast<png_uint_32>(std::lround(dpi / 0.0254));
    png_set_pHYs(png, info, per_metre, per_metre, PNG_RESOLUTION_METER);
  }
  if (texts > 0) png_set_text(png, info, text, texts);
  png_write_info(png, info);
  for (Index y = 0; y < image.height(); ++y) {
    png_write_row(png, reinterpret_cast<png_const_bytep>(&image.at(0, y)));
  }
  png_write_end(png, nullptr);
  return true;
}

std::vector<png_text> text_chunks(std::vector<std::pair<std::string, std::string>>& entries) {
  std::vector<png_text> chunks;
  for (auto& [key, value] : entries) {
    png_text chunk{};
    chunk.compression = PNG_ITXT_COMPRESSION_NONE;  // iTXt holds UTF-8
    chunk.key = key.data();
    chunk.text = value.data();
    chunk.itxt_length = value.size();
    chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace

Image::Image(Index width, Index height, Color fill) : width_(width), height_(height) {
  require(width >= 1 && height >= 1 && width <= max_side && height <= max_side, "plot::Image",
          "bad picture size: found {} x {}, expected sides from 1 to {}", width, height, max_side);
  pixels_.assign(static_cast<std::size_t>(width * height), fill);
}

void Image::blend(Index x, Index y, Color color, double alpha) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_ || alpha <= 0) return;
  Color& p = at(x, y);
  const auto mix = [alpha](std::uint8_t from, std::uint8_t to) {
    return static_cast<std::uint8_t>(std::lround(from + (to - from) * std::min(alpha, 1.0)));
  };
  p = {mix(p.r, color.r), mix(p.g, color.g), mix(p.b, color.b)};
}

Image tile(std::span<const Image> images, Index columns) {
  require(!images.empty() && columns > 0, "plot::tile", "{} pictures in {} columns", images.size(), columns);
  Index width = 0, height = 0;
  for (const Image& image : images) {
    width = std::max(width, image.width());
    height = std::max(height, image.height());
  }
  const auto n = static_cast<Index>(images.size());
  columns = std::min(columns, n);
  Image all(width * columns, height * ((n + columns - 1) / columns));
  for (Index i = 0; i < n; ++i) {
    const Image& image = images[static_cast<std::size_t>(i)];
    const Index left = i % columns * width, top = i / columns * height;
    for (Index y = 0; y < image.height(); ++y) {
      for (Index x = 0; x < image.width(); ++x) all.at(left + x, top + y) = image.at(x, y);
    }
  }
  return all;
}

std::vector<std::uint8_t> encode_png(const Image& image, const PngOptions& options) {
  static_assert(sizeof(Color) == 3);
  require(image.width() > 0, "plot::encode_png", "the picture is empty");
  auto entries = options.text;
  if (!options.software.empty()) entries.insert(entries.begin(), {"Software", options.software});
  if (!options.title.empty()) entries.insert(entries.begin(), {"Title", options.title});
  std::vector<png_text> chunks = text_chunks(entries);

  std::vector<std::uint8_t> bytes;
  std::array<char, 128> message{};
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &message, keep_message, ignore_warning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  bool done = false;
  if (info != nullptr) {
    png_set_write_fn(png, &bytes, append_bytes, no_flush);
    done =
        encode_rows(png, info, image, chunks.data(), static_cast<int>(chunks.size()), options.dots_per_inch);
  }
  png_destroy_write_struct(&png, &info);
  require(done, "plot::encode_png", "libpng failed: {}", message.data());
  return bytes;
}

void write_png(const std::filesystem::path& path, const Image& image, const PngOptions& options) {
  const std::vector<std::uint8_t> bytes = encode_png(image, options);
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) {
      const std::string reason = std::strerror(errno);
      std::error_code ignored;
      std::filesystem::remove(temporary, ignored);
      fail(ExitCode::internal, path.string(), "the picture cannot be written: {}", reason);
    }
  }
  std::error_code failed;
  std::filesystem::rename(temporary, path, failed);
  if (failed) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    fail(ExitCode::internal, path.string(), "the picture cannot be renamed into place: {}", failed.message());
  }
}

}  // namespace tessera::plot
