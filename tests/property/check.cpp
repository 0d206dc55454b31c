#include "tests/property/check.hpp"

#include <algorithm>

#include "tests/property/layouts.hpp"
#include "tests/support/world.hpp"

namespace tessera::property {
namespace {

using golden::Findings;

/// The generators in the order of a round.
const std::vector<const Generator*>& schedule() {
  static const std::vector<const Generator*> made = [] {
    std::vector<const Generator*> all;
    for (int turn = 0; all.size() < 1000; ++turn) {
      const std::size_t before = all.size();
      for (const Generator& g : table()) {
        if (turn < g.weight) all.push_back(&g);
      }
      if (all.size() == before) break;
    }
    return all;
  }();
  return made;
}

std::string describe(const Case& c) {
  std::string text = c.op + (c.sample.text.empty() ? "" : " " + c.sample.text);
  for (std::size_t i = 0; i < c.layouts.size(); ++i) {
    const auto& o = c.sample.operands[i];
    text += fmt::format("; {}{} {}", o.name, o.differentiable ? "" : " (no gradient)",
                        c.layouts[i] ? to_string(c.layouts[i]) : to_string(o.shape) + " plain");
  }
  return text + fmt::format("; {}{}{}{}", name_of(c.type), c.spoiled ? ", an operand spoiled" : "",
                            c.roots == testing::Roots::whole ? ", whole roots" : "",
                            c.differences ? ", finite differences" : "");
}

/// Makes an operand longer, shorter, of more or fewer dimensions, or of another type than the operator asks
/// for.
void spoil(Draw& draw, OperatorCase::Operand& o) {
  const Index kind = draw.in(0, 3);
  Shape& shape = o.shape;
  if (kind == 0 && !shape.empty()) {
    shape[draw.dim(shape.size())] += draw.in(1, 2);
  } else if (kind == 1 && !shape.empty()) {
    shape.erase(draw.dim(shape.size()));
  } else if (kind == 2) {
    shape.insert(draw.dim(shape.size() + 1), draw.in(1, 2));
  } else {
    o.type = draw.of<DType>({DType::f32, DType::f64, DType::i32, DType::i64, DType::u8});
    o.differentiable = o.differentiable && is_floating(*o.type);
  }
  const auto needed = static_cast<std::size_t>(count(shape));
  o.values.resize(std::min(o.values.size(), needed));
  while (o.values.size() < needed) o.values.push_back(draw.values(1)[0]);
  if (!o.dims.empty()) o.dims = testing::all_dims(shape);
}

/// The outcome of a run, or the text of the error that it ended with. Lost ranks end the program.
struct Attempt {
  testing::Outcome outcome;
  std::string error;
};

Attempt attempt(const std::function<testing::Outcome()>& run) {
  try {
    return {run(), {}};
  } catch (const Error& error) {
    if (error.code() == ExitCode::communication) throw;
    return {{}, error.what()};
  } catch (const std::exception& error) {
    return {{}, std::string("not an Error of the library: ") + error.what()};
  }
}

/// True if every rank has this text.
bool same_on_all_ranks(const std::string& text) {
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>()(text));
  const CommPtr world = testing::world();
  return world->all_reduce_value(hash, ReduceOp::min) == world->all_reduce_value(hash, ReduceOp::max);
}

void compare(Findings& findings, const std::string& name, const Values& got, const Values& want,
             double tolerance) {
  const std::string text = testing::difference(got, want, tolerance, tolerance);
  if (!text.empty()) findings.push_back(name + ": " + text);
}

void compare(Findings& findings, const Case& c, const testing::Outcome& got, const testing::Outcome& want) {
  if (got.shapes != want.shapes) {
    findings.push_back(fmt::format("found {} outputs, first of shape {}, expected {} of {}",
                                   got.shapes.size(), got.shapes.empty() ? "?" : to_string(got.shapes[0]),
                                   want.shapes.size(),
                                   want.shapes.empty() ? "?" : to_string(want.shapes[0])));
    return;
  }
  const double tolerance = c.type == DType::f64 && !c.spoiled ? c.sample.tolerance : c.sample.f32_tolerance;
  for (std::size_t i = 0; i < want.outputs.size(); ++i) {
    compare(findings, fmt::format("output {}", i), got.outputs[i], want.outputs[i], tolerance);
  }
  for (std::size_t i = 0; i < want.gradients.size(); ++i) {
    compare(findings, "gradient of " + c.sample.operands[i].name, got.gradients[i], want.gradients[i],
            tolerance);
  }
}

/// An operand that does not fit is refused with an error of the library, under layouts, too.
bool refused(const Attempt& a) {
  return a.error.rfind("[", 0) == 0;
}

/// An input that is refused: with the same clear error everywhere.
Findings check_refusal(const std::string& refusal, const Attempt& plain, const Attempt& sharded) {
  for (const Attempt* a : {&plain, &sharded}) {
    const char* which = a == &plain ? "plain" : "sharded";
    if (a->error.empty()) return {fmt::format("{}: not refused, expected '{}'", which, refusal)};
    if (a->error.find(refusal) == std::string::npos) {
      return {fmt::format("{}: refused with '{}', expected '{}'", which, a->error, refusal)};
    }
  }
  return {};
}

}  // namespace

std::uint64_t round_length() {
  return schedule().size();
}

const Generator& generator_of(std::uint64_t number) {
  return *schedule()[number % schedule().size()];
}

Case make_case(std::uint64_t seed, std::uint64_t number, bool always_differences) {
  std::seed_seq sequence{seed, seed >> 32, number, number >> 32};
  Random random(sequence);
  Draw draw(random, draw_mesh(random));
  Case c;
  const Generator& generator = generator_of(number);
  c.op = generator.op;
  c.sample = generator.draw(draw);
  for (auto& o : c.sample.operands) o.differentiable = o.differentiable && !draw.one_in(6);
  c.spoiled = c.sample.spoilable && c.sample.refusal.empty() && draw.one_in(20);
  if (c.spoiled) {
    spoil(draw,
          c.sample.operands[static_cast<std::size_t>(draw.dim(static_cast<int>(c.sample.operands.size())))]);
  }
  c.layouts = draw_layouts(draw, c.sample);
  c.type = draw.one_in(5) && !c.spoiled ? DType::f32 : DType::f64;
  c.roots = draw.one_in(3) ? testing::Roots::whole : testing::Roots::outputs;
  const bool chosen = draw.one_in(3) || always_differences;
  c.differences = chosen && c.sample.smooth && !c.spoiled && c.type == DType::f64 && c.sample.refusal.empty();
  c.text = describe(c);
  return c;
}

Findings check(Case& c) {
  Attempt plain = attempt([&] { return testing::run_case(c.sample, DType::f64); });
  Attempt sharded = attempt([&] { return testing::run_case(c.sample, c.type, c.layouts, c.roots); });
  if (!same_on_all_ranks(sharded.error)) return {"the ranks end differently; here: '" + sharded.error + "'"};
  if (c.spoiled && refused(plain) && refused(sharded)) return {};
  if (!c.sample.refusal.empty()) return check_refusal(c.sample.refusal, plain, sharded);
  const std::string& excused = c.sample.layout_refusal;
  if (!excused.empty() && sharded.error.find(excused) != std::string::npos) return {};
  if (!plain.error.empty()) return {"plain: " + plain.error};
  if (!sharded.error.empty()) return {"sharded: " + sharded.error};
  Findings findings;
  compare(findings, c, sharded.outcome, plain.outcome);
  if (!findings.empty() || !c.differences) return findings;
  Random random(7);
  const std::string wrong = testing::finite_difference_error(c.sample, random, plain.outcome, c.layouts,
                                                             c.sample.difference_tolerance);
  return wrong.empty() ? Findings{} : Findings{wrong};
}

}  // namespace tessera::property
