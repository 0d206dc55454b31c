#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/box.hpp"

namespace tessera::plot {

/// An sRGB colour, 8 bits a channel.
struct Color {
  std::uint8_t r = 0, g = 0, b = 0;

  friend bool operator==(const Color&, const Color&) = default;
};

inline constexpr Color white{255, 255, 255};
inline constexpr Color ink{38, 38, 42};         ///< text and frames
inline constexpr Color missing{176, 176, 176};  ///< cells without a finite value
inline constexpr Color grid_grey{222, 222, 226};

/// An RGB picture in memory; pixel (0, 0) is the upper left corner.
class Image {
 public:
  Image() = default;
  /// Fails when a side is not in [1, 32768].
  Image(Index width, Index height, Color fill = white);

  Index width() const { return width_; }
  Index height() const { return height_; }
  const std::vector<Color>& pixels() const { return pixels_; }  ///< (height, width), row by row

  Color& at(Index x, Index y) { return pixels_[static_cast<std::size_t>(y * width_ + x)]; }
  const Color& at(Index x, Index y) const { return pixels_[static_cast<std::size_t>(y * width_ + x)]; }

  /// Mixes `color` over the pixel with weight `alpha` in [0, 1]; outside of the picture nothing happens.
  void blend(Index x, Index y, Color color, double alpha);

 private:
  Index width_ = 0, height_ = 0;
  std::vector<Color> pixels_;
};

/// Pictures beside each other, `columns` in a row, each in a cell as large as the largest one. Fails without
/// pictures.
Image tile(std::span<const Image> images, Index columns);

/// Text stored in the file's metadata, e.g. {"Title", "Loss"}; keys are 1 to 79 Latin-1 characters.
struct PngOptions {
  std::string title{};
  std::string software = "Tessera";
  std::vector<std::pair<std::string, std::string>> text{};
  double dots_per_inch = 0;  ///< 0: not recorded
};

/// The picture as a PNG file in memory; the same picture and options give the same bytes.
std::vector<std::uint8_t> encode_png(const Image& image, const PngOptions& options = {});

/// Writes the PNG file under a temporary name in the same folder and renames it into place: a file of this
/// name is never half written. Fails with ExitCode::internal, naming the file, when it cannot be written.
void write_png(const std::filesystem::path& path, const Image& image, const PngOptions& options = {});

}  // namespace tessera::plot
