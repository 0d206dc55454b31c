#pragma once

#include <string>
#include <vector>

namespace tessera::plot {

/// A closed interval of values. `lo < hi` and both finite wherever one is drawn.
struct ValueRange {
  double lo = 0, hi = 1;

  double width() const { return hi - lo; }
  double fraction(double value) const { return (value - lo) / (hi - lo); }
};

/// The interval widened so that it can be drawn: no NaN or infinity, and wide enough to be resolved in double
/// precision. An empty or constant interval gets room about its value.
ValueRange drawable(ValueRange range);

struct Ticks {
  std::vector<double> values;       ///< within the range, rising
  std::vector<std::string> labels;  ///< one per value
  std::vector<double> minor;        ///< positions of unlabelled ticks (logarithmic axes)
  std::string factor;  ///< what to multiply labels by and add to them: "×10⁻⁶ + 300"; often empty
};

enum class TickStyle {
  decimal,  ///< steps of 1, 2, 2.5 or 5 times a power of ten
  whole,    ///< the same, whole numbers only: epochs, steps, lead times
  degrees,  ///< steps of 1, 2, 5, 10, 15, 30, 45, 60, 90 degrees
};

/// Between about 2 and `target` + 1 ticks at round numbers.
Ticks linear_ticks(ValueRange range, int target, TickStyle style = TickStyle::decimal);

/// Ticks of a logarithmic axis over a positive range: powers of ten (`1e-3`), every n-th one on wide ranges,
/// and their multiples by 2 and 5 on narrow ones.
Ticks log_ticks(ValueRange range, int target);

/// At most `digits` significant digits, the shortest form: "0.25", "1e-05" becomes "1e-5".
std::string short_number(double value, int digits = 4);

/// "×10⁻⁶"
std::string power_of_ten(int exponent);

}  // namespace tessera::plot
