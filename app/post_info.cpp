#include "app/post_info.hpp"

#include <cstdio>
#include <fstream>

#include <fmt/format.h>

#include "app/commands.hpp"
#include "io/agree.hpp"
#include "io/fields/well_source.hpp"
#include "io/hdf5/file.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

enum class Kind : std::int32_t { well, datasets, checkpoint, safetensors, run, history };

bool is_well(const std::string& path) {
  const hdf5::File file = hdf5::File::open(path);
  return file.root().has_group("t0_fields") && file.root().has_group("dimensions");
}

bool has_fields(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string suffix = entry.path().extension().string();
    if (suffix == ".hdf5" || suffix == ".h5" || suffix == ".nc") return true;
  }
  return false;
}

Kind kind_of(const std::string& path) {
  std::error_code ec;
  if (!fs::exists(path, ec)) fail(ExitCode::input_file, path, "no such file or folder");
  const fs::path p(path);
  if (fs::is_directory(p)) {
    if (fs::exists(p / "manifest.json")) return Kind::checkpoint;
    if (has_fields(p)) return is_well(list_hdf5_files({path}).front()) ? Kind::well : Kind::datasets;
    for (const char* part : {"resolved.yaml", "history.jsonl", "checkpoints"}) {
      if (fs::exists(p / part)) return Kind::run;
    }
    fail(ExitCode::input_file, path, "found neither HDF5 files nor a checkpoint nor a run in this folder");
  }
  const std::string suffix = p.extension().string();
  if (suffix == ".safetensors") return Kind::safetensors;
  if (suffix == ".jsonl") return Kind::history;
  return is_well(path) ? Kind::well : Kind::datasets;
}

std::string local_info(Kind kind, const std::string& path, const InfoOptions& options) {
  switch (kind) {
    case Kind::checkpoint:
      return checkpoint_info(path, options);
    case Kind::safetensors:
      return safetensors_info(path, options);
    case Kind::run:
      return run_info(path);
    case Kind::history:
      return history_info(path);
    default: {
      std::string text;
      for (const std::string& file : list_hdf5_files({path})) text += datasets_info(file, options);
      return text;
    }
  }
}

}  // namespace

std::string info_text(const std::string& path, const InfoOptions& options, const CommPtr& world) {
  auto kind = Kind::well;
  run_on_root(*world, [&] { kind = kind_of(path); });
  auto shared = static_cast<std::int32_t>(kind);
  world->broadcast(&shared, 1, DType::i32, 0);
  kind = static_cast<Kind>(shared);
  if (kind == Kind::well) return fields_info(path, options, world);
  std::string text;
  run_on_root(*world, [&] { text = local_info(kind, path, options); });
  return world->broadcast_text(text);
}

Schema post_info_schema() {
  return Schema("Options of `tessera post info`", [](Section& s) {
    s.integer("steps").min(-1).defaults(Index{64}).help(
        "for the ranges read at most so many steps, spread evenly; 0: none, -1: all");
    s.boolean("all").defaults(false).help("list every array, and decks in full");
  });
}

int post_info(const CommPtr& world, const CommandLine& line) {
  const Deck deck = Deck::parse(post_info_schema(), {}, line.overrides);
  const InfoOptions options{deck.get<Index>("steps"), deck.get<bool>("all")};
  bool first = true;
  for (const std::string& path : line.files) {
    const std::string text = info_text(path, options, world);
    if (world->rank() == 0) std::fputs(((first ? "" : "\n") + text).c_str(), stdout);
    first = false;
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace tessera
