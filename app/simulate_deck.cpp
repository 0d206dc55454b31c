#include "app/simulate_deck.hpp"

#include <cmath>

namespace tessera {
namespace {

constexpr double kMostCells = 1e12;
constexpr double kMostSteps = 1e7;

void describe_hill(Section& s) {
  s.real("height").unit("m").help("of a Gaussian hill; negative: a hollow");
  s.reals("position").length(2).unit("m").help("of its top: y, x");
  s.real("width").above(0).unit("m").help("its standard deviation");
}

void describe_bathymetry(Section& s) {
  s.real("base").defaults(0.0).unit("m").help("elevation of the bed above the datum");
  s.sections("hills", describe_hill).length(0, 1000).empty().help("added to it");
}

void describe_sides(Section& s) {
  for (const char* axis : {"y", "x"}) {
    s.list(axis, SchemaKey::item(KeyType::choice).choices({"periodic", "wall", "open"}))
        .single_allowed()
        .length(1, 2)
        .defaults(std::vector<std::string>{"periodic"})
        .help("what lies beyond the low and the high end; one word stands for both");
  }
}

void describe_dam(Section& s) {
  s.real("inside").defaults(2.0).unit("m").help("elevation of the surface behind the dam");
  s.reals("position")
      .length(2)
      .range(0, 1)
      .defaults(std::vector<double>{0.5, 0.5})
      .help("of the dam, y and x, as fractions of the lengths");
  s.real("jitter").min(0).below(1).defaults(0.0).help(
      "position and radius move at random by up to this fraction of length and radius");
}

void describe_planar_dam(Section& s) {
  describe_dam(s);
  s.choice("axis", {"y", "x"}).defaults("x").help("the axis that the dam lies across");
}

void describe_circular_dam(Section& s) {
  describe_dam(s);
  s.real("radius").above(0).defaults(0.2).unit("m").help("of the dam");
}

void describe_bumps(Section& s) {
  s.integer("count").range(0, 10000).defaults(Index{3}).help("Gaussian bumps at random positions");
  s.real("amplitude").defaults(0.1).unit("m").help("largest height; each is between half of it and it");
  s.real("width").above(0).defaults(0.1).unit("m").help("standard deviation; each is 1 to 1.5 times it");
}

void describe_modes(Section& s) {
  s.real("amplitude").defaults(0.1).unit("m").help("standard deviation of the surface");
  s.integer("max_wavenumber").range(1, 256).defaults(Index{4}).help("waves per length of the finest mode");
}

void describe_initial(Section& s) {
  s.selector("type").defaults("bumps").help("shape of the surface; the water is at rest");
  s.real("level").defaults(1.0).unit("m").help("elevation of the undisturbed surface above the datum");
  s.variant(
      "lake", [](Section&) {}, "flat");
  s.variant("planar_dam", describe_planar_dam, "a straight dam that has just broken");
  s.variant("circular_dam", describe_circular_dam, "a round dam that has just broken");
  s.variant("bumps", describe_bumps, "bumps at random positions");
  s.variant("modes", describe_modes, "a random smooth surface");
}

void describe_shallow_water(Section& s) {
  s.integers("grid").length(2).range(1, 1e6).help("cells along y and x");
  s.reals("lengths").length(2).above(0).unit("m").help("of the basin along y and x");
  s.real("gravity").above(0).defaults(9.81).unit("m/s^2").help("acceleration");
  s.section("sides", describe_sides).help("boundary conditions");
  s.section("bathymetry", describe_bathymetry).help("elevation of the bed");
  s.section("initial", describe_initial).help("state at time 0");
  s.real("cfl").above(0).max(1).defaults(0.45).help("time step as a fraction of the stability limit");
  s.choice("limiter", {"none", "minmod", "middle", "central"})
      .defaults("middle")
      .help("of the slopes: none is first order, then from most to least diffusive");
  s.real("dry_depth").above(0).defaults(1e-6).unit("m").help("shallower water does not move");
  s.choice("precision", {"single", "double"}).defaults("double").help("of the solver");
}

WaterSide side(const Deck& sides, const char* axis, std::size_t end) {
  const auto words = sides.get<std::vector<std::string>>(axis);
  const std::string& word = words[std::min(end, words.size() - 1)];
  return word == "wall" ? WaterSide::wall : word == "open" ? WaterSide::open : WaterSide::periodic;
}

WaterSides read_sides(const Deck& deck) {
  for (const char* axis : {"y", "x"}) {
    if ((side(deck, axis, 0) == WaterSide::periodic) != (side(deck, axis, 1) == WaterSide::periodic)) {
      throw deck.error(axis, "one end is periodic, the other is not");
    }
  }
  return {side(deck, "y", 0), side(deck, "y", 1), side(deck, "x", 0), side(deck, "x", 1)};
}

Bathymetry read_bathymetry(const Deck& deck) {
  Bathymetry bathymetry;
  bathymetry.base = deck.get<double>("base");
  for (const Deck& hill : deck.sections("hills")) {
    const auto at = hill.get<std::vector<double>>("position");
    bathymetry.hills.push_back({hill.get<double>("height"), at[0], at[1], hill.get<double>("width")});
  }
  return bathymetry;
}

WaterStartOptions read_start(const Deck& deck, std::uint64_t seed) {
  WaterStartOptions o;
  o.kind = deck.choose<WaterStart>("type", {{"lake", WaterStart::lake},
                                            {"planar_dam", WaterStart::planar_dam},
                                            {"circular_dam", WaterStart::circular_dam},
                                            {"bumps", WaterStart::bumps},
                                            {"modes", WaterStart::modes}});
  o.level = deck.get<double>("level");
  o.seed = seed;
  if (o.kind == WaterStart::planar_dam || o.kind == WaterStart::circular_dam) {
    o.inside = deck.get<double>("inside");
    const auto at = deck.get<std::vector<double>>("position");
    o.position_y = at[0];
    o.position_x = at[1];
    o.jitter = deck.get<double>("jitter");
  }
  if (o.kind == WaterStart::planar_dam) o.axis = deck.get<std::string>("axis")[0];
  if (o.kind == WaterStart::circular_dam) o.radius = deck.get<double>("radius");
  if (o.kind == WaterStart::bumps) {
    o.count = deck.get<int>("count");
    o.width = deck.get<double>("width");
  }
  if (o.kind == WaterStart::modes) o.max_wavenumber = deck.get<int>("max_wavenumber");
  if (o.kind == WaterStart::bumps || o.kind == WaterStart::modes) o.amplitude = deck.get<double>("amplitude");
  return o;
}

ShallowWaterOptions read_options(const Deck& deck) {
  ShallowWaterOptions o;
  const auto grid = deck.get<std::vector<Index>>("grid");
  o.ny = grid[0];
  o.nx = grid[1];
  if (static_cast<double>(o.ny) * static_cast<double>(o.nx) > kMostCells) {
    throw deck.error("grid", "found {} x {} cells, expected at most {:g}", o.ny, o.nx, kMostCells);
  }
  const auto lengths = deck.get<std::vector<double>>("lengths");
  o.length_y = lengths[0];
  o.length_x = lengths[1];
  o.gravity = deck.get<double>("gravity");
  o.sides = read_sides(deck.section("sides"));
  o.bathymetry = read_bathymetry(deck.section("bathymetry"));
  o.cfl = deck.get<double>("cfl");
  o.limiter = deck.choose<SlopeLimiter>("limiter", {{"none", SlopeLimiter::none},
                                                    {"minmod", SlopeLimiter::minmod},
                                                    {"middle", SlopeLimiter::middle},
                                                    {"central", SlopeLimiter::central}});
  o.dry_depth = deck.get<double>("dry_depth");
  o.precision = deck.get<std::string>("precision") == "double" ? DType::f64 : DType::f32;
  return o;
}

}  // namespace

void describe_simulate(Section& s) {
  s.selector("type").defaults("shallow_water").help("the physics");
  s.variant("shallow_water", describe_shallow_water, "2-D shallow water, finite volumes of second order");
  s.integer("seed").min(0).defaults(Index{0}).help("of the random initial states");
  s.real("every").above(0).unit("s").help("simulated time between two output steps");
  s.integer("steps")
      .min(1)
      .max(kMostSteps)
      .optional()
      .help("output steps, the initial state included; this or `until`");
  s.real("until").min(0).optional().unit("s").help("simulated time at which to stop; this or `steps`");
}

WaterDeck read_water(const Deck& deck) {
  WaterDeck water;
  water.options = read_options(deck);
  validate(water.options);
  water.start = read_start(deck.section("initial"), deck.get<std::uint64_t>("seed"));
  validate(water.start);
  water.every = deck.get<double>("every");
  if (deck.has("steps") == deck.has("until")) {
    throw deck.error(deck.has("steps") ? "until" : "every", "found {} of `steps` and `until`, expected one",
                     deck.has("steps") ? "both" : "neither");
  }
  if (deck.has("steps")) {
    water.steps = deck.get<Index>("steps");
  } else {
    // A millionth of a step forgives the round-off of `until` / `every`.
    const double intervals = std::floor(deck.get<double>("until") / water.every + 1e-6);
    if (intervals >= kMostSteps) {
      throw deck.error("until", "found {:g} output steps, expected at most {:g}", intervals + 1, kMostSteps);
    }
    water.steps = static_cast<Index>(intervals) + 1;
  }
  return water;
}

}  // namespace tessera
