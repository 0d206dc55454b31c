#pragma once

#include <string>
#include <vector>

#include "io/plot/canvas.hpp"

namespace tessera::plot {

struct LegendEntry {
  std::string label{};
  Pen pen{};
  bool line = true, marker = false;  ///< neither: a filled box
};

/// Names of the series, side by side in as many lines as `width` asks for. It stands outside of the plot
/// area, so it hides no data.
class Legend {
 public:
  Legend(std::vector<LegendEntry> entries, double width);

  double height() const;  ///< including the space below; 0 without entries
  void draw(Canvas& canvas, double x, double y) const;

 private:
  struct Place {
    double x;
    int line;
  };

  std::vector<LegendEntry> entries_;
  std::vector<Place> places_;
  double width_;
};

}  // namespace tessera::plot
