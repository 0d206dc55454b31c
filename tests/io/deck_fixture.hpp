#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "io/deck/deck.hpp"

namespace tessera::testing {

inline void describe_partition(Section& s) {
  s.selector("type").defaults("even").help("how the axis is cut");
  s.variant("even", [](Section&) {});
  s.variant("weights",
            [](Section& v) { v.reals("weights").above(0).length(1, 8).help("share of each rank"); });
}

inline void describe_field(Section& s) {
  s.text("name").help("name in the output");
  s.integers("shape")
      .length(1, 3)
      .min(1)
      .single_allowed()
      .defaults(std::vector<int>{1})
      .help("points per axis");
  s.real("missing").optional().non_finite().help("value that stands for none");
}

inline void describe_model(Section& s) {
  s.selector("type").help("architecture");
  s.integer("channels").min(1).defaults(2).help("output channels");
  s.variant(
      "vit",
      [](Section& v) {
        v.integer("depth").range(1, 100).defaults(12).help("blocks");
        v.integer("heads").min(1).defaults(4).help("attention heads");
        v.section("mlp",
                  [](Section& m) { m.real("ratio").above(0).defaults(4.0).help("hidden width over width"); });
      },
      "vision transformer");
  s.variant("convnet", [](Section& v) {
    v.integer("width").min(1).help("channels inside");
    v.choice("padding", {"zero", "periodic"}).defaults("zero").help("outside the grid");
  });
}

/// A schema with every type of key.
inline Schema test_schema() {
  return Schema("A deck for tests", [](Section& s) {
    s.integer("steps").min(1).help("updates");
    s.boolean("quiet").defaults(false).help("say nothing");
    s.text("title").defaults("run").help("in plots");
    s.duration("walltime").optional().unit("s").help("stop after");
    s.section("train", [](Section& t) {
       t.real("lr").above(0).max(1).defaults(1e-3).help("learning rate");
       t.real("gravity").unit("m/s^2").defaults(9.81).help("a | b");
       t.reals("betas").length(2).range(0, 1).defaults(std::vector<double>{0.9, 0.999}).help("moments");
     }).help("how to train");
    s.section("ema", [](Section& e) { e.real("decay").range(0, 1).help("of the average"); })
        .optional()
        .help("average");
    s.section("model", describe_model).help("the surrogate");
    s.sections("fields", describe_field).length(1, 4).help("channels");
    s.named_sections("partition", describe_partition).empty().help("cuts per axis");
    s.map("mesh", SchemaKey::item(KeyType::integer))
        .defaults(std::vector<std::pair<std::string, int>>{{"ddp", 1}});
    s.list("splits", SchemaKey::item(SchemaKey::item(KeyType::integer))).empty().help("ranges of samples");
  });
}

/// The shortest valid deck.
inline const std::string minimal = "steps: 10\nmodel: {type: vit}\nfields:\n  - name: u\n";

inline Deck parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return Deck::parse(test_schema(), {{"d.yaml", text}}, overrides);
}

/// The text of the Error(usage) that the deck causes; empty when it causes none.
inline std::string message_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return {};
}

}  // namespace tessera::testing
