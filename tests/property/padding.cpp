// Padding, cropping and interpolation.
#include "solver/ops/interpolate/interpolate.hpp"
#include "solver/ops/pad/pad.hpp"
#include "tests/property/draw.hpp"
#include "tests/property/layouts.hpp"

namespace tessera::property {
namespace {

Sample draw_pad(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 5)), 6);
  const auto mode = static_cast<PadMode>(draw.in(0, 3));
  const double value = draw.one_in(2) ? 0 : draw.values(1)[0];
  Shape lo, hi;
  for (const Index n : x) {
    const Index most = mode == PadMode::reflect ? n - 1 : 2 * n + 1;
    const bool crops = draw.one_in(3);
    do {
      lo.push_back(draw.in(crops ? -n : 0, draw.one_in(2) ? most : 0));
      hi.push_back(draw.in(crops ? -n : 0, draw.one_in(2) ? most : 0));
      if (n + lo.back() + hi.back() >= 1) break;
      lo.pop_back();
      hi.pop_back();
    } while (true);
  }
  const char* names[] = {"constant", "reflect", "replicate", "periodic"};
  Sample s;
  s.text = fmt::format("lo {} hi {} mode {} value {}", to_string(lo), to_string(hi),
                       names[static_cast<int>(mode)], value);
  s.operand("x", x, draw.values(count(x)));
  s.op = [=](Inputs in) { return pad(in[0], lo, hi, mode, value); };
  if (mode == PadMode::reflect && draw.one_in(12)) {
    const int d = draw.dim(x.size());
    lo[d] = x[d] + draw.in(0, 2);
    s.text = fmt::format("lo {} hi {} mode reflect", to_string(lo), to_string(hi));
    s.refusal = "[pad] found pads";
    s.op = [=](Inputs in) { return pad(in[0], lo, hi, PadMode::reflect); };
  }
  return s;
}

Sample draw_crop(Draw& draw) {
  const Shape x = draw.shape(static_cast<int>(draw.in(1, 4)), 8);
  Box box;
  for (const Index n : x) {
    const Index lo = draw.in(0, n);
    box.push_back({lo, draw.in(lo, n)});
  }
  const Layout target =
      draw.one_in(2) ? draw_layout(draw, box.shape(), testing::all_dims(x), false) : Layout();
  Sample s;
  s.text = to_string(box) + " target " + (target ? to_string(target) : "none");
  s.operand("x", x, draw.values(count(x)));
  s.spoilable = !target;
  // A target is for shard tensors.
  s.op = [=](Inputs in) { return crop(in[0], box, in[0].is_shard() ? target : Layout()); };
  return s;
}

Sample draw_interpolate(Draw& draw) {
  const auto axes = static_cast<int>(draw.in(1, 3));
  Shape x{draw.in(1, 2)}, size;
  for (int a = 0; a < axes; ++a) {
    x.push_back(draw.in(1, axes == 1 ? 15 : axes == 2 ? 8 : 5));
    size.push_back(draw.one_in(3) ? draw.in(1, 3) : draw.in(1, 2 * x.back() + 3));
  }
  x.push_back(draw.in(1, 3));
  const auto mode = static_cast<InterpolateMode>(draw.in(0, 4));
  const bool smooth_mode = mode == InterpolateMode::linear || mode == InterpolateMode::cubic;
  const bool align_corners = smooth_mode && draw.one_in(2);
  const char* names[] = {"nearest", "nearest-exact", "linear", "cubic", "area"};
  Sample s;
  s.text = fmt::format("size {} mode {} align_corners {}", to_string(size), names[static_cast<int>(mode)],
                       align_corners);
  s.operand("x", x, draw.values(count(x)));
  s.op = [=](Inputs in) { return interpolate(in[0], size, mode, align_corners); };
  return s;
}

}  // namespace

void add_padding(Table& table) {
  table.push_back({"pad", draw_pad, 3});
  table.push_back({"crop", draw_crop, 2});
  table.push_back({"interpolate", draw_interpolate, 3});
}

}  // namespace tessera::property
