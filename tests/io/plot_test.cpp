// Pictures: PNG files, colour maps, ticks, field and line plots.
#include <png.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "io/plot/canvas.hpp"
#include "io/plot/colormap.hpp"
#include "io/plot/field_plot.hpp"
#include "io/plot/line_plot.hpp"
#include "parallel/error.hpp"

namespace tessera::plot {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

struct Decoded {
  Index width = 0, height = 0;
  std::vector<Color> pixels;
};

// Through libpng's simplified interface, which shares nothing with the writer.
Decoded decode(const std::vector<std::uint8_t>& bytes) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()), 0) << png.message;
  png.format = PNG_FORMAT_RGB;
  Decoded result{static_cast<Index>(png.width), static_cast<Index>(png.height), {}};
  result.pixels.resize(static_cast<std::size_t>(result.width * result.height));
  EXPECT_NE(png_image_finish_read(&png, nullptr, result.pixels.data(), 0, nullptr), 0) << png.message;
  return result;
}

Field2D field(Index rows, Index cols, auto value) {
  Field2D f{rows, cols, {}};
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < cols; ++c) f.values.push_back(value(r, c));
  }
  return f;
}

Field2D wave(Index rows, Index cols, double amplitude = 1, double offset = 0) {
  return field(rows, cols, [=](Index r, Index c) {
    return offset +
           amplitude * std::sin(0.3 * static_cast<double>(r)) * std::cos(0.2 * static_cast<double>(c));
  });
}

std::size_t count(const Image& image, Color color) {
  return static_cast<std::size_t>(std::count(image.pixels().begin(), image.pixels().end(), color));
}

Index ink_pixels(const Canvas& canvas) {
  Canvas copy = canvas;
  const Image image = std::move(copy).take();
  return static_cast<Index>(image.pixels().size() - count(image, white));
}

TEST(Png, DecodesToTheSamePixelsAndHoldsItsText) {
  Image image(7, 5);
  for (Index y = 0; y < 5; ++y) {
    for (Index x = 0; x < 7; ++x) {
      image.at(x, y) = {static_cast<std::uint8_t>(40 * x), static_cast<std::uint8_t>(60 * y), 200};
    }
  }
  const auto bytes =
      encode_png(image, {.title = "wind in m s\u207b\u00b9", .text = {{"Source", "winds.h5"}}});
  const Decoded decoded = decode(bytes);
  EXPECT_EQ(decoded.width, 7);
  EXPECT_EQ(decoded.height, 5);
  EXPECT_EQ(decoded.pixels, image.pixels());
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const char* text : {"Title", "wind in m s\u207b\u00b9", "Software", "Tessera", "Source", "winds.h5"}) {
    EXPECT_NE(file.find(text), std::string_view::npos) << text;
  }
}

TEST(Png, WritesInPlaceOfAnOldFileAndLeavesNoTemporaryOne) {
  const auto folder = std::filesystem::temp_directory_path() / "tessera_plot_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  write_png(folder / "a.png", Image(3, 3));
  write_png(folder / "a.png", Image(30, 30));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_EQ(std::filesystem::file_size(folder / "a.png"), encode_png(Image(30, 30)).size());
  EXPECT_THROW(write_png(folder / "missing" / "a.png", Image(3, 3)), Error);
  std::filesystem::create_directories(folder / "taken.png" / "inside");
  EXPECT_THROW(write_png(folder / "taken.png", Image(3, 3)), Error);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
  std::filesystem::remove_all(folder);
}

TEST(Png, RefusesImpossibleSizes) {
  EXPECT_THROW(Image(0, 5), Error);
  EXPECT_THROW(Image(5, 40000), Error);
  EXPECT_THROW(encode_png(Image()), Error);
}

TEST(Colormap, OklabRoundTripAndWhite) {
  for (const Color c : {Color{0, 0, 0}, Color{255, 255, 255}, Color{12, 200, 77}, Color{255, 0, 0}}) {
    EXPECT_EQ(to_color(to_oklab(c)), c);
  }
  EXPECT_NEAR(to_oklab(white).l, 1, 1e-6);
}

TEST(Colormap, SequentialLightnessRisesInEqualPerceivedSteps) {
  const Colormap& map = Colormap::sequential();
  double least = inf, greatest = 0;
  for (int i = 8; i < Colormap::levels; ++i) {
    const Oklab p = to_oklab(map.level(i - 8)), q = to_oklab(map.level(i));
    EXPECT_GT(q.l, p.l) << i;
    const double step = std::hypot(q.l - p.l, q.a - p.a, q.b - p.b);
    least = std::min(least, step);
    greatest = std::max(greatest, step);
  }
  EXPECT_LT(greatest / least, 1.3);  // rounding to 8 bits is what remains
}

TEST(Colormap, DivergingIsSymmetricAboutItsMiddle) {
  const Colormap& map = Colormap::diverging();
  for (int i = 0; i < Colormap::levels / 2; ++i) {
    const Oklab p = to_oklab(map.level(i)), q = to_oklab(map.level(Colormap::levels - 1 - i));
    EXPECT_NEAR(p.l, q.l, 6e-3) << i;
    EXPECT_NEAR(std::hypot(p.a, p.b), std::hypot(q.a, q.b), 1e-2) << i;
    const double earlier = i >= 4 ? to_oklab(map.level(i - 4)).l : 0;
    EXPECT_GT(p.l, earlier) << i;
  }
  EXPECT_GT(to_oklab(map(0.5)).l, 0.95);
}

TEST(Colormap, EndsAndMissingValues) {
  const Colormap& map = Colormap::sequential();
  EXPECT_EQ(map(-3), map.level(0));
  EXPECT_EQ(map(inf), map.level(255));
  EXPECT_EQ(map(nan), missing);
  EXPECT_EQ(line_color(0), line_color(8));
  EXPECT_NE(line_color(0), line_color(1));
}

TEST(Ticks, LinearOnesAreRoundNumbers) {
  const Ticks t = linear_ticks({-0.3, 1.04}, 6);
  EXPECT_EQ(t.labels, (std::vector<std::string>{"\u22120.25", "0.00", "0.25", "0.50", "0.75", "1.00"}));
  EXPECT_TRUE(t.factor.empty());
  EXPECT_EQ(linear_ticks({0, 360}, 7, TickStyle::degrees).values,
            (std::vector<double>{0, 60, 120, 180, 240, 300, 360}));
  EXPECT_EQ(linear_ticks({1, 3}, 8, TickStyle::whole).labels, (std::vector<std::string>{"1", "2", "3"}));
}

TEST(Ticks, ExtremeValuesGetAFactorOrAnAddend) {
  const Ticks tiny = linear_ticks({0, 4e-12}, 5);
  EXPECT_EQ(tiny.factor, "\u00d710\u207b\u00b9\u00b2");
  EXPECT_EQ(tiny.labels.back(), "4");
  EXPECT_EQ(linear_ticks({0, 1e9}, 5).factor, "\u00d710\u2079");
  const Ticks pressure = linear_ticks({101325, 101325.004}, 5);
  EXPECT_EQ(pressure.labels.front(), "0.000");
  EXPECT_EQ(pressure.factor, "+ 101325");
}

TEST(Ticks, LieWithinTheRangeWhateverItIs) {
  const double ranges[][2] = {{0, 1},     {1e-300, 1e300}, {-1e308, 1e308},  {1, 1 + 1e-15},
                              {nan, nan}, {5, 5},          {0, 0},           {-inf, inf},
                              {nan, 3},   {7, -2},         {1e-320, 2e-320}, {-3e-9, 1e9}};
  for (const auto& r : ranges) {
    for (const int target : {1, 4, 9}) {
      const ValueRange range = drawable({r[0], r[1]});
      ASSERT_LT(range.lo, range.hi);
      for (const TickStyle style : {TickStyle::decimal, TickStyle::whole, TickStyle::degrees}) {
        const Ticks t = linear_ticks(range, target, style);
        EXPECT_LE(t.values.size(), static_cast<std::size_t>(target) + 1);
        EXPECT_EQ(t.values.size(), t.labels.size());
        for (const double v : t.values) EXPECT_TRUE(v >= range.lo && v <= range.hi) << r[0] << " " << v;
      }
      EXPECT_LE(log_ticks({std::abs(r[0]), std::abs(r[1])}, target).values.size(), 20u);
    }
  }
}

TEST(Ticks, LogarithmicOnesArePowersOfTen) {
  EXPECT_EQ(log_ticks({5e-4, 20}, 6).labels, (std::vector<std::string>{"1e-3", "1e-2", "1e-1", "1", "1e1"}));
  EXPECT_EQ(log_ticks({0.015, 0.3}, 6).labels, (std::vector<std::string>{"0.02", "0.05", "0.1", "0.2"}));
  EXPECT_EQ(log_ticks({1e-30, 1e20}, 6).labels.size(), 6u);
  EXPECT_EQ(log_ticks({0.31, 0.39}, 6).labels, (std::vector<std::string>{"0.32", "0.34", "0.36", "0.38"}));
}

TEST(Text, EveryPrintableLetterHasStrokesAndNoTwoLookAlike) {
  std::vector<std::string> drawn;
  for (char32_t c = 33; c < 127; ++c) {
    std::string shape;
    for (const Polyline& line : glyph(c).strokes) {
      for (const Point p : line) shape += std::to_string(p.x) + "," + std::to_string(p.y) + " ";
    }
    EXPECT_FALSE(shape.empty()) << static_cast<int>(c);
    EXPECT_GT(glyph(c).advance, 0.1);
    EXPECT_EQ(std::count(drawn.begin(), drawn.end(), shape), 0) << static_cast<int>(c);
    drawn.push_back(shape);
  }
}

TEST(Text, Utf8WrappingAndShortening) {
  EXPECT_EQ(decode_utf8("a\u00b0\u2212\U0001F600"), U"a\u00b0\u2212\U0001F600");
  EXPECT_EQ(decode_utf8("\xff\xc3"), U"\ufffd\ufffd");
  for (const std::string& line : wrap_text("the quick brown fox jumps over averyveryverylongword", 6)) {
    EXPECT_LE(text_width(line), 6);
  }
  EXPECT_TRUE(wrap_text("", 6).empty());
  EXPECT_EQ(shorten_text("short", 50), "short");
  EXPECT_LE(text_width(shorten_text("a name that is too long to fit", 6)), 6);
  EXPECT_EQ(shorten_text("abc", 0.1), "");
}

TEST(Canvas, TurnedTextCoversAsMuchAsLevelText) {
  Canvas level(200, 200, 1), turned(200, 200, 1);
  level.text({20, 100}, "Latitude 90", {.size = 14});
  turned.text({100, 180}, "Latitude 90", {.size = 14, .upwards = true});
  EXPECT_GT(ink_pixels(level), 100);
  EXPECT_NEAR(static_cast<double>(ink_pixels(level)), static_cast<double>(ink_pixels(turned)), 3);
}

TEST(Canvas, LinesAreClippedAndBrokenAtMissingPoints) {
  Canvas canvas(100, 100, 1);
  const std::vector<Point> points{{-1e12, 50},      {1e12, 50},     {nan, 0},
                                  {-1e300, -1e300}, {1e300, 1e300}, {inf, 3}};
  canvas.polyline(points, {.color = ink, .width = 2}, {20, 20, 60, 60});
  EXPECT_EQ(canvas.image().at(10, 50), white);
  EXPECT_EQ(canvas.image().at(30, 50), ink);
  EXPECT_EQ(canvas.image().at(90, 90), white);
}

TEST(FieldPlot, ResamplingAveragesOrRepeats) {
  const Field2D f = field(4, 6, [](Index r, Index c) { return static_cast<double>(10 * r + c); });
  EXPECT_EQ(resample(f, 2, 3).values, (std::vector<double>{5.5, 7.5, 9.5, 25.5, 27.5, 29.5}));
  EXPECT_EQ(resample(f, 4, 12).values[3], 1);
  EXPECT_EQ(resample(f, 4, 6).values, f.values);
  const Field2D thirds = resample(field(1, 3, [](Index, Index c) { return static_cast<double>(c); }), 1, 2);
  EXPECT_NEAR(thirds.values[0], 1.0 / 3, 1e-15);  // one whole cell 0 and half of cell 1
  EXPECT_NEAR(thirds.values[1], 5.0 / 3, 1e-15);
  const Field2D holes{1, 4, {nan, nan, nan, 8}};
  EXPECT_TRUE(std::isnan(resample(holes, 1, 2).values[0]));
  EXPECT_TRUE(std::isnan(resample(holes, 1, 1).values[0]));
}

TEST(FieldPlot, ColourBarRange) {
  PanelGroup group{{{"a", {1, 3, {1, nan, 4}}}, {"b", {1, 3, {2, 9, inf}}}}, "m", {}, {}};
  EXPECT_FALSE(is_diverging(group));
  EXPECT_EQ(color_range(group).lo, 1);
  EXPECT_EQ(color_range(group).hi, 9);
  group.panels[0].field.values[0] = -6;
  EXPECT_TRUE(is_diverging(group));
  EXPECT_EQ(color_range(group).lo, -9);
  EXPECT_EQ(color_range(group).hi, 9);
  group.range = ValueRange{-1, 2};
  EXPECT_EQ(color_range(group).lo, -1);
  const FieldRow row = compare_row("h", "m", {1, 2, {1, 2}}, {1, 2, {4, 6}});
  ASSERT_EQ(row.groups.size(), 2u);
  EXPECT_EQ(color_range(row.groups[0]).hi, 6);
  EXPECT_EQ(color_range(row.groups[1]).lo, -4);
  EXPECT_NE(row.groups[1].panels[0].title.find("3.54"), std::string::npos);  // sqrt((9 + 16) / 2)
  std::vector<FieldRow> rows{row, compare_row("h", "m", {1, 2, {1, 8}}, {1, 2, {4, 7}})};
  share_ranges(rows);
  for (const FieldRow& r : rows) {
    EXPECT_EQ(color_range(r.groups[0]).lo, 1);
    EXPECT_EQ(color_range(r.groups[0]).hi, 8);
    EXPECT_EQ(color_range(r.groups[1]).lo, -4);
    EXPECT_TRUE(is_diverging(r.groups[1]));
  }
  EXPECT_THROW(compare_row("h", "m", wave(2, 3), wave(3, 2)), Error);
}

TEST(FieldPlot, ShowsValuesTheRightWayUp) {
  const Field2D f = field(2, 1, [](Index r, Index) { return static_cast<double>(r); });
  const auto rows = [](const Image& image) {  // of the lowest and of the highest value's colour
    Index low = -1, high = -1;
    for (Index y = 0; y < image.height(); ++y) {
      const Index x = image.width() / 3;
      if (image.at(x, y) == Colormap::sequential().level(0)) low = y;
      if (image.at(x, y) == Colormap::sequential().level(255)) high = y;
    }
    return std::pair{low, high};
  };
  const FieldRow row{"", {{{{"", f}}, "", ColorScale::sequential, {}}}};
  FieldPlotOptions options{.x = {"", 0, 1}, .y = {"", 0, 1}};
  const auto [low, high] = rows(draw_fields({row}, options));
  EXPECT_GT(low, high);
  options.first_row_top = true;
  const auto [low_turned, high_turned] = rows(draw_fields({row}, options));
  EXPECT_LT(low_turned, high_turned);
  options.first_row_top.reset();
  options.y = {"", 90, -90, TickStyle::degrees};
  const auto [low_falling, high_falling] = rows(draw_fields({row}, options));
  EXPECT_LT(low_falling, high_falling);
}

TEST(FieldPlot, ExtentsSetTheAspectRatio) {
  const FieldRow row{"", {{{{"", wave(10, 10)}}, "", {}, {}}}};
  const auto wide = draw_fields({row}, {.x = {"", 0, 360}, .y = {"", -90, 90}, .scale = 1});
  const auto square = draw_fields({row}, {.x = {"", 0, 1}, .y = {"", 0, 1}, .scale = 1});
  EXPECT_EQ(square.height() - wide.height(), 165);
}

TEST(FieldPlot, DegenerateInputsAndDeterminism) {
  const Field2D none = field(20, 20, [](Index, Index) { return nan; });
  const Field2D wild = field(9, 7, [](Index r, Index c) { return r == c ? inf : r > c ? 1e308 : -1e308; });
  std::vector<FieldRow> rows;
  rows.push_back(compare_row("tiny", "kg m\u207b\u00b2", wave(30, 40, 1e-12), wave(30, 40, 2e-12)));
  rows.push_back(compare_row("huge", "Pa", wave(30, 40, 1e9), wave(30, 40, -1e9)));
  rows.push_back(compare_row("offset", "Pa", wave(30, 40, 1e-3, 101325), wave(30, 40, 2e-3, 101325)));
  rows.push_back(compare_row("constant", "K", wave(30, 40, 0, 5), wave(30, 40, 0, 5)));
  rows.push_back(compare_row("zero", "", wave(30, 40, 0), wave(30, 40, 0)));
  rows.push_back(compare_row(std::string(300, 'x'), std::string(300, 'u'), none, none));
  rows.push_back(compare_row("wild", "", wild, wild));
  rows.push_back(compare_row("one cell", "", {1, 1, {3}}, {1, 1, {4}}));
  rows.push_back(compare_row("empty", "", {}, {}));
  rows.push_back({"no groups", {}});
  FieldPlotOptions options{.title = std::string(400, 'T') + " end", .panel_size = 90, .scale = 1};
  options.x.label = std::string(200, 'a');
  const Image image = draw_fields(rows, options);
  EXPECT_GT(count(image, missing), 0u);
  EXPECT_EQ(encode_png(image), encode_png(draw_fields(rows, options)));
  EXPECT_EQ(decode(encode_png(image)).pixels, image.pixels());
  EXPECT_THROW(draw_fields({}, {}), Error);
  EXPECT_THROW(draw_fields({{"", {{{{"short", {2, 2, {1}}}}, "", {}, {}}}}}, {}), Error);
}

TEST(LinePlot, SizeAndDeterminism) {
  Series s{.label = "train", .markers = true};
  for (int i = 0; i < 100; ++i) {
    s.x.push_back(i);
    s.y.push_back(std::exp(-0.1 * i));
  }
  const LinePlotOptions options{
      .title = "Loss", .x_label = "step", .y_label = "loss", .log_y = true, .width = 500, .height = 300};
  const Image image = draw_lines({s}, options);
  EXPECT_EQ(image.width(), 1000);
  EXPECT_EQ(image.height(), 600);
  EXPECT_GT(count(image, line_color(0)), 1000u);
  EXPECT_EQ(encode_png(image), encode_png(draw_lines({s}, options)));
}

TEST(LinePlot, ManyPointsKeepTheirExtremes) {
  Series s{.label = ""};
  for (int i = 0; i < 200000; ++i) {
    s.x.push_back(i);
    s.y.push_back(i == 100001 ? 5.0 : i % 2);
  }
  const Image image = draw_lines({s}, {.y_range = ValueRange{0, 6}, .scale = 1});
  std::size_t above = 0;  // the single peak stands alone in the upper half of the frame
  for (Index y = 0; y < image.height() / 2; ++y) {
    for (Index x = 0; x < image.width(); ++x) above += image.at(x, y).b > image.at(x, y).r + 40 ? 1 : 0;
  }
  EXPECT_GT(above, 80u);
}

TEST(LinePlot, DegenerateSeries) {
  const std::vector<std::vector<Series>> cases = {
      {},
      {{.label = "empty"}},
      {{.label = "one", .x = {3}, .y = {1e-12}}},
      {{.label = "bad", .x = {1, 2, nan, inf}, .y = {nan, inf, 1, 2}}},
      {{.label = "not positive", .x = {1, 2, 3}, .y = {-1, 0, -5}}},
      {{.label = "wild", .x = {1, 2, 3, 4}, .y = {1e-308, 1e308, -1e308, 5}, .style = LineStyle::dashed}},
      {{.label = "constant", .x = {1, 2, 3}, .y = {2, 2, 2}, .style = LineStyle::none}},
      {{.label = std::string(500, 'w'), .x = {1, 1, 1}, .y = {1, 2, 3}, .style = LineStyle::dotted}}};
  for (const auto& series : cases) {
    for (const bool log : {false, true}) {
      const LinePlotOptions options{.title = "t", .log_x = log, .log_y = log, .from_zero = true, .scale = 1};
      EXPECT_EQ(draw_lines(series, options).width(), 660);
    }
  }
  EXPECT_THROW(draw_lines({{.label = "lengths", .x = {1, 2}, .y = {1}}}), Error);
  const LinePlotOptions reversed{.log_y = true, .y_range = ValueRange{5, -5}, .scale = 1};
  EXPECT_EQ(draw_lines(cases[2], reversed).width(), 660);
}

TEST(BarPlot, HeightsFollowTheValues) {
  const Image image = draw_bars({"U", "V"}, {{"model", {2, 1}}, {"persistence", {4, nan}}}, {.scale = 1});
  const auto model = static_cast<double>(count(image, line_color(0)));
  const auto persistence = static_cast<double>(count(image, line_color(1)));
  EXPECT_NEAR(persistence / model, 4.0 / 3, 0.05);
  EXPECT_GT(draw_bars({"a", "b"}, {{"s", {-1, 2e9}}, {"t", {inf, 0}}}).width(), 0);
  EXPECT_GT(draw_bars({"a"}, {{"s", {0}}}).width(), 0);
  EXPECT_THROW(draw_bars({"a"}, {{"s", {1, 2}}}), Error);
  EXPECT_THROW(draw_bars({}, {}), Error);
}

}  // namespace
}  // namespace tessera::plot
