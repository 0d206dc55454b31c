#include "app/run.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "app/build_info.hpp"
#include "io/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/version.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

constexpr const char* kResolved = "resolved.yaml";

/// The folder's path without a slash at its end.
fs::path plain(const std::string& path) {
  return (fs::path(path) / "").parent_path();
}

bool is_checkpoint(const fs::path& folder) {
  return fs::exists(folder / "manifest.json");
}

std::optional<Index> step_number(const std::string& text) {
  Index step = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, step);
  return parsed.ec == std::errc{} && parsed.ptr == end ? std::optional(step) : std::nullopt;
}

std::string joined(const std::vector<std::string>& texts, const char* separator) {
  std::string result;
  for (const std::string& text : texts) result += (result.empty() ? "" : separator) + text;
  return result;
}

fs::path checkpoint_of_step(const fs::path& root, Index step) {
  const fs::path folder = root / checkpoint_name(step);
  if (is_checkpoint(folder)) return folder;
  std::vector<std::string> steps;
  for (const fs::path& other : list_checkpoints(root)) {
    steps.push_back(std::to_string(step_of_name(other.filename().string()).value_or(-1)));
  }
  fail(ExitCode::input_file, root.string(), "no checkpoint of step {}: found {}", step,
       steps.empty() ? "none" : "steps " + joined(steps, ", "));
}

/// Evaluates `find` on rank 0.
fs::path path_from_root(Communicator& world, const std::function<fs::path()>& find) {
  std::string text;
  run_on_root(world, [&] { text = find().string(); });
  return world.broadcast_text(text);
}

/// The newest complete checkpoint; nothing where there has never been one.
std::optional<fs::path> newest_checkpoint(Communicator& world, const fs::path& root) {
  const int there = world.rank() == 0 && !list_checkpoints(root).empty() ? 1 : 0;
  if (world.all_reduce_value(there, ReduceOp::max) == 0) return std::nullopt;
  const auto newest =
      latest_checkpoint(world, root, [](const std::string& text) { spdlog::warn("{}", text); });
  if (!newest) fail(ExitCode::input_file, root.string(), "no undamaged checkpoint to continue from");
  return newest;
}

/// What `-r` names: "latest", a step, or the path of a checkpoint or of a run folder. Nothing if the latest
/// of a run without checkpoints is asked for. Collective.
std::optional<fs::path> resolve_restart(Communicator& world, const std::string& restart,
                                        const fs::path& checkpoints) {
  if (restart == "latest") {
    auto newest = newest_checkpoint(world, checkpoints);
    if (!newest && world.rank() == 0) {
      spdlog::warn("{}: no checkpoint to continue from, this run starts at the beginning",
                   checkpoints.string());
    }
    return newest;
  }
  if (const auto step = step_number(restart)) {
    return path_from_root(world, [&] { return checkpoint_of_step(checkpoints, *step); });
  }
  const fs::path folder = path_from_root(world, [&]() -> fs::path {
    const fs::path given = plain(restart);
    if (!fs::is_directory(given)) fail(ExitCode::input_file, restart, "no such folder to restart from");
    return fs::is_directory(given / "checkpoints") ? given / "checkpoints" : given;
  });
  bool direct = false;
  run_on_root(world, [&] { direct = is_checkpoint(folder); });
  if (world.all_reduce_value(direct ? 1 : 0, ReduceOp::max) > 0) return folder;
  auto newest = newest_checkpoint(world, folder);
  if (!newest) fail(ExitCode::input_file, restart, "no checkpoint here to continue from");
  return newest;
}

/// `-d`, else the run that the checkpoint `-r <path>` lies in, else runs/<deck name>.
fs::path run_folder(const CommandLine& line) {
  if (!line.folder.empty()) return line.folder;
  if (line.restart) {
    const fs::path checkpoint = plain(*line.restart);
    if (is_checkpoint(checkpoint) && checkpoint.parent_path().filename() == "checkpoints") {
      return checkpoint.parent_path().parent_path();
    }
    if (fs::exists(checkpoint / kResolved)) return checkpoint;
  }
  return fs::path("runs") / fs::path(line.deck_path).stem();
}

DeckText deck_from_root(Communicator& world, const std::string& path) {
  DeckText deck{path, {}};
  run_on_root(world, [&] { deck = read_deck_file(path); });
  deck.text = world.broadcast_text(deck.text);
  return deck;
}

/// The resolved deck that a restart builds on: of the checkpoint, else of the run folder.
std::optional<DeckText> former_deck(Communicator& world, const fs::path& run,
                                    const std::optional<fs::path>& checkpoint) {
  DeckText deck;
  run_on_root(world, [&] {
    if (checkpoint) {
      const auto state = nlohmann::json::parse(Checkpoint(*checkpoint).state(), nullptr, false);
      if (state.is_object() && state.contains("deck") && state["deck"].is_string()) {
        deck = {"of " + checkpoint->string(), state["deck"].get<std::string>()};
      }
    } else if (fs::exists(run / kResolved)) {
      deck = read_deck_file((run / kResolved).string());
    }
    if (deck.text.empty() && checkpoint) {
      spdlog::warn("{}: no deck there, the given one alone counts", checkpoint->string());
    }
  });
  deck.name = world.broadcast_text(deck.name);
  deck.text = world.broadcast_text(deck.text);
  return deck.text.empty() ? std::nullopt : std::optional(std::move(deck));
}

Deck read_layers(Communicator& world, const CommandLine& line, const Schema& schema, const DeckText& given,
                 const fs::path& run, const std::optional<fs::path>& checkpoint) {
  std::vector<DeckText> layers;
  if (line.restart) {
    if (auto former = former_deck(world, run, checkpoint)) layers.push_back(*std::move(former));
  }
  layers.push_back(given);
  return Deck::parse(schema, layers, line.overrides);
}

std::optional<fs::path> restart_folder(Communicator& world, const CommandLine& line, const fs::path& run,
                                       Resume resume) {
  if (!line.restart) return std::nullopt;
  if (resume == Resume::folder) {
    if (*line.restart != "latest") {
      fail(ExitCode::usage, "command line", "-r {}: '{}' continues its own folder, expected -r latest",
           *line.restart, line.command);
    }
    return std::nullopt;
  }
  return resolve_restart(world, *line.restart, run / "checkpoints");
}

/// Whether there is nothing in the folder but perhaps a lock.
bool holds_nothing(const fs::path& folder) {
  return std::all_of(
      fs::directory_iterator(folder), fs::directory_iterator(),
      [](const fs::directory_entry& entry) { return entry.path().filename() == RunLock::kName; });
}

/// Every host once, with its ranks: "a: 0 1, b: 2 3".
std::string host_list(Communicator& world) {
  std::vector<std::pair<std::string, std::string>> hosts;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string host = world.broadcast_text(host_name(), rank);
    auto at = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.first == host; });
    if (at == hosts.end()) at = hosts.insert(at, {host, ""});
    at->second += " " + std::to_string(rank);
  }
  std::vector<std::string> texts;
  for (const auto& [host, ranks] : hosts) texts.push_back(host + ":" + ranks);
  return joined(texts, ", ");
}

}  // namespace

void remove_numbered_outputs(const fs::path& folder, std::string_view stem) {
  std::vector<fs::path> doomed;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(stem)) continue;
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string suffix = name.substr(dot);
    const bool ours = suffix == ".hdf5" || suffix == ".xdmf" || suffix == ".hdf5.partial";
    if (ours && step_number(name.substr(stem.size(), dot - stem.size()))) doomed.push_back(entry.path());
  }
  for (const fs::path& file : doomed) fs::remove(file, error);
}

namespace {

/// The lock of a folder whose run is to go on; none where nothing is written.
std::unique_ptr<RunLock> lock_to_restart(Communicator& world, const CommandLine& line,
                                         const fs::path& folder) {
  std::unique_ptr<RunLock> lock;
  if (!line.restart || line.dry_run) return lock;
  run_on_root(world, [&] {
    if (fs::is_directory(folder)) lock = std::make_unique<RunLock>(folder);
  });
  return lock;
}

}  // namespace

Run::Run(CommPtr world, CommandLine line, const Schema& schema, Resume resume)
    : world_(std::move(world)),
      line_(std::move(line)),
      folder_(path_from_root(*world_, [this] { return run_folder(line_); })),
      lock_(lock_to_restart(*world_, line_, folder_)),
      restart_from_(restart_folder(*world_, line_, folder_, resume)),
      given_(deck_from_root(*world_, line_.deck_path)),
      deck_(read_layers(*world_, line_, schema, given_, folder_, restart_from_)) {}

void Run::open_folder() {
  run_on_root(*world_, [this] {
    const bool there = fs::is_directory(folder_);
    if (there && !lock_) lock_ = std::make_unique<RunLock>(folder_);
    const bool empty = there ? holds_nothing(folder_) : !fs::exists(folder_);
    const bool continues = is_restart() && fs::exists(folder_ / kResolved);
    if (!empty && !continues && !line_.force) {
      fail(ExitCode::usage, folder_.string(), "the run folder is not empty{}",
           is_restart()
               ? fmt::format(" and no run's, it has no {}: choose another with -d, or use --force", kResolved)
               : ": continue with -r, choose another with -d, or use --force");
    }
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) fail(ExitCode::usage, folder_.string(), "cannot create the run folder: {}", error.message());
    if (!lock_) lock_ = std::make_unique<RunLock>(folder_);
    write_text_atomically(folder_ / kResolved, deck_.resolved());
  });
}

Provenance Run::provenance(const Mesh& mesh, const Layout& grid) const {
  return {{"command", line_.command},
          {"deck", given_.text},
          {"deck_name", given_.name},
          {"overrides", joined(line_.overrides, "\n")},
          {"resolved_deck", deck_.resolved()},
          {"version", version()},
          {"git_hash", git_hash()},
          {"mesh", to_string(mesh)},
          {"partition", grid ? to_string(grid) : ""},
          {"hosts", host_list(*world_)}};
}

void Run::say(const std::string& text) const {
  if (!is_root() || line_.quiet) return;
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace tessera
