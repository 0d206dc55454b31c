// The shallow-water solver against exact solutions and invariants, on strips of rows or columns over all
// ranks.
#include "solver/physics/shallow_water.hpp"

#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <string>

#include <gtest/gtest.h>

#include "solver/physics/shallow_water_initial.hpp"
#include "tests/solver/shallow_water_cases.hpp"

namespace tessera {
namespace {

using testing::all_sides;
using testing::basin;
using testing::strips;
using testing::whole_state;

constexpr double kPi = std::numbers::pi;

double sum_over_ranks(double value) {
  return testing::world()->all_reduce_value(value, ReduceOp::sum);
}
double max_over_ranks(double value) {
  return testing::world()->all_reduce_value(value, ReduceOp::max);
}

// Calls body(j, i, h, hu, hv) for this rank's cells.
template <typename Body>
void for_own_cells(const ShallowWater& solver, Body&& body) {
  const std::vector<double> q = solver.state().to_host<double>();
  const Box& box = solver.layout().local_box();
  if (box.is_empty()) return;
  std::size_t at = 0;
  for (Index j = box[1].lo; j < box[1].hi; ++j) {
    for (Index i = box[2].lo; i < box[2].hi; ++i, at += 3) body(j, i, q[at], q[at + 1], q[at + 2]);
  }
}

WaterSides mixed_sides() {
  return {WaterSide::wall, WaterSide::open, WaterSide::periodic, WaterSide::periodic};
}

TEST(ShallowWaterLake, StaysAtRestOverAHill) {
  for (const WaterSides& sides : {all_sides(WaterSide::periodic), all_sides(WaterSide::wall),
                                  all_sides(WaterSide::open), mixed_sides()}) {
    for (const double height : {0.6, 1.3}) {  // under water, and an island
      for (const SlopeLimiter limiter : {SlopeLimiter::minmod, SlopeLimiter::central}) {
        ShallowWaterOptions o = basin(23, 31, 1.0, 1.4, sides);
        o.limiter = limiter;
        o.bathymetry.hills = {{height, 0.45, 0.7, 0.15}, {-0.3, 0.9, 0.1, 0.2}};
        ShallowWater solver(o, strips(o));
        set_initial_state(solver, {.kind = WaterStart::lake, .level = 1.0});
        solver.advance_to(0.3);
        EXPECT_GT(solver.steps(), 30);
        double worst = 0;
        for_own_cells(solver, [&](Index j, Index i, double h, double hu, double hv) {
          const double lake = std::max(1.0 - solver.bed_at(j, i), 0.0);
          worst = std::max({worst, std::abs(h - lake), std::abs(hu), std::abs(hv)});
        });
        EXPECT_LT(max_over_ranks(worst), 2e-14)
            << "limiter " << static_cast<int>(limiter) << ", hill " << height;
      }
    }
  }
}

TEST(ShallowWaterLake, StaysAtRestInSinglePrecision) {
  ShallowWaterOptions o = basin(23, 31, 1.0, 1.4, all_sides(WaterSide::wall));
  o.precision = DType::f32;
  o.bathymetry.hills = {{0.6, 0.45, 0.7, 0.15}};
  ShallowWater solver(o, strips(o, 2));
  solver.advance_to(0.5);
  double worst = 0;
  for_own_cells(solver, [&](Index j, Index i, double h, double hu, double hv) {
    worst = std::max({worst, std::abs(h - (1.0 - solver.bed_at(j, i))), std::abs(hu), std::abs(hv)});
  });
  EXPECT_LT(max_over_ranks(worst), 1e-5);
}

// Stoker's solution of the dam break over a wet bed: depth at s = (x - x0) / t.
struct Stoker {
  double g, left, right, middle = 0, speed = 0, shock = 0;
  Stoker(double gravity, double h_left, double h_right) : g(gravity), left(h_left), right(h_right) {
    const auto rarefaction = [&](double h) { return 2 * (std::sqrt(g * left) - std::sqrt(g * h)); };
    const auto jump = [&](double h) { return (h - right) * std::sqrt(g / 2 * (h + right) / (h * right)); };
    double lo = right, hi = left;
    for (int n = 0; n < 200; ++n) {
      middle = (lo + hi) / 2;
      (rarefaction(middle) > jump(middle) ? lo : hi) = middle;
    }
    speed = rarefaction(middle);
    shock = middle * speed / (middle - right);
  }
  double depth(double s) const {
    const double c = std::sqrt(g * left);
    if (s < -c) return left;
    if (s < speed - std::sqrt(g * middle)) return std::pow(2 * c - s, 2) / (9 * g);
    return s < shock ? middle : right;
  }
};

// L1 error of the depth of a planar dam break across `axis`.
double dam_break_error(Index n, char axis, double right) {
  const bool along_x = axis == 'x';
  ShallowWaterOptions o = along_x ? basin(3, n, 0.1, 10, all_sides(WaterSide::wall))
                                  : basin(n, 3, 10, 0.1, all_sides(WaterSide::wall));
  ShallowWater solver(o, strips(o, along_x ? 2 : 1));
  set_initial_state(solver, {.kind = WaterStart::planar_dam, .level = right, .inside = 2, .axis = axis});
  const double end = 0.6;
  solver.advance_to(end);
  const Stoker wet(o.gravity, 2, std::max(right, 1e-9));
  const double c = std::sqrt(2 * o.gravity);
  double error = 0;
  for_own_cells(solver, [&](Index j, Index i, double h, double, double) {
    const double s = ((along_x ? solver.x(i) : solver.y(j)) - 5) / end;
    const double dry = s < -c      ? 2
                       : s < 2 * c ? std::pow(2 * c - s, 2) / (9 * o.gravity)
                                   : 0;  // Ritter's solution
    error += std::abs(h - (right > 0 ? wet.depth(s) : dry));
  });
  return sum_over_ranks(error) * 10 / static_cast<double>(3 * n);
}

TEST(ShallowWaterDamBreak, ConvergesToStokersSolution) {
  const double coarse = dam_break_error(100, 'x', 1), medium = dam_break_error(200, 'x', 1),
               fine = dam_break_error(400, 'x', 1);
  if (testing::world()->rank() == 0) {
    std::printf("L1 error at 400 cells %.4f m, orders %.2f, %.2f\n", fine, std::log2(coarse / medium),
                std::log2(medium / fine));
  }
  EXPECT_GT(std::log2(coarse / medium), 0.75);
  EXPECT_GT(std::log2(medium / fine), 0.75);
  EXPECT_LT(fine, 0.02);
  EXPECT_DOUBLE_EQ(dam_break_error(100, 'y', 1), coarse);
}

TEST(ShallowWaterDamBreak, ConvergesToRittersSolutionOnADryBed) {
  const double coarse = dam_break_error(100, 'x', 0), fine = dam_break_error(400, 'x', 0);
  EXPECT_GT(std::log2(coarse / fine) / 2, 0.75);
  EXPECT_LT(fine, 0.02);
}

// A simple wave running towards +x: h + const is carried along characteristics dx/dt = u + c with u = 2 (c -
// c0). Exact before it breaks. Returns the L1 error of depth and momentum.
double simple_wave_error(Index n, bool along_x) {
  ShallowWaterOptions o = along_x ? basin(2, n, 0.1, 1, all_sides(WaterSide::periodic))
                                  : basin(n, 2, 1, 0.1, all_sides(WaterSide::periodic));
  o.gravity = 1;
  o.limiter = SlopeLimiter::central;
  ShallowWater solver(o, strips(o, along_x ? 2 : 1));
  const auto celerity = [](double s) { return 1 + 0.05 * std::sin(2 * kPi * s); };
  const auto exact = [&](double s, double t) {  // (h, momentum) at s
    double from = s - t;
    for (int k = 0; k < 100; ++k) from = s - (3 * celerity(from) - 2) * t;
    const double c = celerity(from);
    return std::pair{c * c, c * c * 2 * (c - 1)};
  };
  const auto mean = [&](Index i, double t) {  // over the cell, by Gauss's two points
    const double d = 1 / static_cast<double>(n), s = (static_cast<double>(i) + 0.5) * d,
                 r = d / (2 * std::sqrt(3.0));
    const auto a = exact(s - r, t), b = exact(s + r, t);
    return std::pair{(a.first + b.first) / 2, (a.second + b.second) / 2};
  };
  solver.set_state([&](Index j, Index i) {
    const auto [h, q] = mean(along_x ? i : j, 0);
    return along_x ? WaterCell{h, q, 0} : WaterCell{h, 0, q};
  });
  solver.advance_to(0.5);
  double error = 0;
  for_own_cells(solver, [&](Index j, Index i, double h, double hu, double hv) {
    const auto [depth, q] = mean(along_x ? i : j, 0.5);
    error += std::abs(h - depth) + std::abs((along_x ? hu : hv) - q);
  });
  return sum_over_ranks(error) / static_cast<double>(2 * n);
}

TEST(ShallowWaterSmooth, SecondOrderOnASimpleWave) {
  const double coarse = simple_wave_error(64, true), fine = simple_wave_error(256, true);
  if (testing::world()->rank() == 0) std::printf("order %.2f\n", std::log2(coarse / fine) / 2);
  EXPECT_GT(std::log2(coarse / fine) / 2, 1.8);
  EXPECT_NEAR(simple_wave_error(64, false), coarse, 1e-15);
}

TEST(ShallowWaterInvariants, VolumeIsConserved) {
  for (const WaterSide side : {WaterSide::periodic, WaterSide::wall}) {
    for (const bool dry : {false, true}) {
      ShallowWaterOptions o = basin(29, 37, 1, 1.2, all_sides(side));
      o.bathymetry.hills = {{dry ? 1.4 : 0.5, 0.3, 0.8, 0.2}};
      ShallowWater solver(o, strips(o));
      set_initial_state(solver, {.kind = WaterStart::circular_dam, .level = dry ? 0.2 : 1.0, .inside = 1.5});
      const double before = solver.volume();
      solver.advance_to(0.5);
      EXPECT_GT(solver.steps(), 60);
      EXPECT_NEAR(solver.volume() / before, 1, 1e-13) << "side " << static_cast<int>(side) << ", dry " << dry;
      for_own_cells(solver, [&](Index, Index, double h, double, double) { ASSERT_GE(h, 0); });
    }
  }
}

TEST(ShallowWaterInvariants, DepthsStayPositiveBeyondTheSafeTimeStep) {
  ShallowWaterOptions o = basin(24, 32, 1, 1.2, all_sides(WaterSide::wall));
  o.cfl = 1;
  o.limiter = SlopeLimiter::central;
  o.bathymetry.hills = {{0.8, 0.5, 0.9, 0.1}};
  ShallowWater solver(o, strips(o));
  set_initial_state(solver, {.kind = WaterStart::circular_dam, .level = 0, .inside = 2, .position_x = 0.3});
  const double before = solver.volume();
  solver.advance_to(0.5);
  EXPECT_NEAR(solver.volume() / before, 1, 1e-9);
  for_own_cells(solver, [&](Index, Index, double h, double, double) { ASSERT_GE(h, 0); });
}

TEST(ShallowWaterInvariants, OpenSidesLetWavesOut) {
  ShallowWaterOptions o = basin(40, 40, 1, 1, all_sides(WaterSide::open));
  ShallowWater solver(o, strips(o));
  set_initial_state(solver, {.kind = WaterStart::circular_dam, .level = 1, .inside = 1.2});
  solver.advance_to(2);
  double worst = 0;
  for_own_cells(solver,
                [&](Index, Index, double h, double, double) { worst = std::max(worst, std::abs(h - 1)); });
  EXPECT_LT(max_over_ranks(worst), 5e-3);
}

TEST(ShallowWaterInvariants, SymmetricProblemsStaySymmetric) {
  for (const WaterSide side : {WaterSide::wall, WaterSide::open, WaterSide::periodic}) {
    const Index n = 32;  // cell centres are exact in binary, and so are mirrored ones
    ShallowWaterOptions o = basin(n, n, 1, 1, all_sides(side));
    o.bathymetry.given = [](double y, double x) { return 0.3 * (std::abs(x - 0.5) + std::abs(y - 0.5)); };
    ShallowWater solver(o, strips(o));
    // A dam with exactly the symmetries of the square.
    solver.set_state([&](Index j, Index i) {
      const Index a = std::min(j, n - 1 - j), b = std::min(i, n - 1 - i);
      return WaterCell{a + b > 20 ? 1.5 : a * b < 20 ? 0.0 : 0.6, 0, 0};
    });
    solver.advance_to(0.2);
    const std::vector<double> q = whole_state(solver);
    const auto at = [&](Index j, Index i, int c) { return q[static_cast<std::size_t>((j * n + i) * 3 + c)]; };
    for (Index j = 0; j < n; ++j) {
      for (Index i = 0; i < n; ++i) {
        ASSERT_EQ(at(j, i, 0), at(j, n - 1 - i, 0)) << j << " " << i << " side " << static_cast<int>(side);
        ASSERT_EQ(at(j, i, 0), at(i, j, 0)) << j << " " << i;
        ASSERT_EQ(at(j, i, 1), -at(j, n - 1 - i, 1));
        ASSERT_EQ(at(j, i, 1), at(i, j, 2));
        ASSERT_EQ(at(j, i, 2), at(j, n - 1 - i, 2));
      }
    }
  }
}

TEST(ShallowWaterErrors, OptionsAreChecked) {
  const auto message = [](auto&& change) -> std::string {
    ShallowWaterOptions o = basin(4, 4, 1, 1, all_sides(WaterSide::periodic));
    change(o);
    try {
      validate(o);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message([](auto&) {}), "");
  EXPECT_NE(message([](auto& o) { o.ny = 0; }).find("grid"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.gravity = -1; }).find("gravity"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.cfl = 1.5; }).find("cfl"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.length_x = NAN; }).find("length_x"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.sides.x_low = WaterSide::wall; }).find("x is periodic on one side"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) { o.precision = DType::bf16; }).find("bf16"), std::string::npos);
}

// Runs `solver` to time 1; the message of the numerical error it must end with.
std::string numerical_failure(ShallowWater& solver) {
  try {
    solver.advance_to(1);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::numerical);
    return e.what();
  }
  return "no failure";
}

TEST(ShallowWaterErrors, NotANumberNamesStepRankAndCell) {
  ShallowWaterOptions o = basin(9, 7, 1, 1, all_sides(WaterSide::wall));
  ShallowWater solver(o, strips(o));
  solver.set_state([](Index j, Index i) { return WaterCell{1, j == 7 && i == 3 ? NAN : 0, 0}; });
  const int owner = solver.layout().partition(0).owner(7);
  const std::string text = numerical_failure(solver);
  EXPECT_NE(text.find("step 1"), std::string::npos) << text;
  EXPECT_NE(text.find("cell (7, 3)"), std::string::npos) << text;
  EXPECT_NE(text.find("rank " + std::to_string(owner)), std::string::npos) << text;
}

TEST(ShallowWaterErrors, OverflowAndCollapsedTimeStep) {
  ShallowWaterOptions o = basin(9, 7, 1, 1, all_sides(WaterSide::wall));
  ShallowWater fast(o, strips(o));
  fast.set_state([](Index, Index i) { return WaterCell{1, i == 3 ? 1e200 : 0, 0}; });
  EXPECT_NE(numerical_failure(fast).find("[shallow_water] step 1"), std::string::npos);

  o.min_time_step = 1e-3;
  ShallowWater slow(o, strips(o));
  slow.set_state([](Index, Index) { return WaterCell{1, 1e6, 0}; });
  EXPECT_NE(numerical_failure(slow).find("collapsed"), std::string::npos);
}

TEST(ShallowWaterOutput, FieldsAndVelocity) {
  ShallowWaterOptions o = basin(5, 6, 1, 1, all_sides(WaterSide::periodic));
  ShallowWater solver(o, strips(o));
  solver.set_state([](Index j, Index) { return WaterCell{j == 2 ? 0.0 : 2.0, 3, -1}; }, 4.5);
  EXPECT_EQ(solver.time(), 4.5);
  const std::vector<float> q = solver.output(true, DType::f32).to_host<float>();
  const Box& box = solver.layout().local_box();
  for (std::size_t at = 0; at < q.size(); at += 3) {
    const bool dry = box[1].lo + static_cast<Index>(at) / 18 == 2;
    EXPECT_EQ(q[at], dry ? 0.0F : 2.0F);
    EXPECT_EQ(q[at + 1], dry ? 0.0F : 1.5F);
    EXPECT_EQ(q[at + 2], dry ? 0.0F : -0.5F);
  }
  const auto fields = shallow_water_fields(true);
  ASSERT_EQ(fields.size(), 2U);
  EXPECT_EQ(fields[0].name, "height");
  EXPECT_EQ(fields[1].unit, "m/s");
  EXPECT_EQ(fields[1].components.size(), 2U);
}

}  // namespace
}  // namespace tessera
