#include "app/post_plot.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "app/commands.hpp"
#include "app/post_files.hpp"
#include "io/agree.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

enum class Content { fields, history, comparison };

/// A run folder stands for its history.
std::string history_of(const std::string& path) {
  const fs::path history = fs::path(path) / "history.jsonl";
  return fs::is_regular_file(history) ? history.string() : path;
}

Content content_of(const std::string& path) {
  const std::string suffix = fs::path(path).extension().string();
  return suffix == ".jsonl" ? Content::history : suffix == ".json" ? Content::comparison : Content::fields;
}

std::string default_name(Content content) {
  return content == Content::history      ? "history.png"
         : content == Content::comparison ? "compare.png"
                                          : "fields.png";
}

plot::Image draw(Content content, const PlotRequest& request) {
  if (content == Content::history) return plot_histories(request);
  if (content == Content::comparison) return plot_comparison(request);
  return plot_fields(request);
}

PlotRequest request_of(const CommandLine& line, const Deck& options) {
  PlotRequest request;
  for (const std::string& path : line.files) request.paths.push_back(history_of(path));
  for (const std::string& path : request.paths) {
    if (content_of(path) != content_of(request.paths.front())) {
      fail(ExitCode::usage, "post plot", "'{}' and '{}' do not go into one picture", request.paths.front(),
           path);
    }
  }
  request.fields = split_commas(options.get<std::vector<std::string>>("field"));
  request.trajectory = options.get<Index>("trajectory");
  if (const auto step = options.find<Index>("step")) request.steps.push_back(*step);
  for (const Index lead : options.get<std::vector<Index>>("leads")) request.steps.push_back(lead - 1);
  request.axis = options.get<std::string>("axis");
  request.index = options.get<Index>("index");
  request.keys = split_commas(options.get<std::vector<std::string>>("keys"));
  request.metric = options.get<std::string>("metric");
  request.title = options.get<std::string>("title");
  return request;
}

}  // namespace

Schema post_plot_schema() {
  return Schema("Options of `tessera post plot`", [](Section& s) {
    s.text("out")
        .defaults(std::string())
        .help("the PNG file; default fields.png, history.png or compare.png");
    s.texts("field").single_allowed().empty().help("fields or components; default: those that vary in time");
    s.integer("trajectory").min(0).defaults(Index{0}).help("number of the trajectory, from 0");
    s.integer("step").min(0).optional().help("a step of the trajectory, from 0");
    s.integers("leads").single_allowed().empty().min(1).unit("steps").help(
        "lead times, from 1; default: first, middle and last");
    s.text("axis").defaults(std::string()).help("3-D grids: the axis to cut across; default: the first");
    s.integer("index").min(-1).defaults(Index{-1}).help("3-D grids: where to cut; -1: in the middle");
    s.texts("keys").single_allowed().empty().help("curves of a history; default: loss, valid_loss");
    s.text("metric").defaults(std::string()).help("metric of a comparison; default: its first");
    s.text("title").defaults(std::string()).help("title of the picture");
  });
}

int post_plot(const CommPtr& world, const CommandLine& line) {
  const Deck options = Deck::parse(post_plot_schema(), {}, line.overrides);
  run_on_root(*world, [&] {
    const PlotRequest request = request_of(line, options);
    const Content content = content_of(request.paths.front());
    const plot::Image image = draw(content, request);
    const auto given = options.get<std::string>("out");
    const fs::path out = given.empty() ? fs::path(default_name(content)) : fs::path(given);
    if (!out.parent_path().empty()) fs::create_directories(out.parent_path());
    plot::write_png(out, image);
    if (!line.quiet) fmt::print("wrote {} ({} x {} pixels)\n", out.string(), image.width(), image.height());
  });
  return static_cast<int>(ExitCode::done);
}

}  // namespace tessera
