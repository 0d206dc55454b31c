#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "io/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/checksum.hpp"
#include "io/checkpoint/manifest.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

json box_to_json(const Box& box) {
  json out = json::array();
  for (const Range r : box) out.push_back({r.lo, r.hi});
  return out;
}

std::uint64_t key_of(const SavedArray& array) {
  return checksum_of(array.name + "\n" + to_string(array.box));
}

// For each array, whether this rank writes it: of the ranks that hold the same box of the same array, one
// does, and which one depends on the key so that the work is spread.
std::vector<bool> choose_writers(Communicator& comm, std::span<const SavedArray> arrays) {
  std::vector<std::int64_t> keys;
  for (const SavedArray& array : arrays) keys.push_back(static_cast<std::int64_t>(key_of(array)));
  const std::vector<Index> counts = comm.all_gather_value(static_cast<Index>(keys.size()));
  Index total = 0;
  for (const Index n : counts) total += n;
  std::vector<std::int64_t> all(static_cast<std::size_t>(total));
  comm.all_gather(keys.data(), all.data(), counts, DType::i64);
  std::map<std::int64_t, std::vector<int>> holders;
  std::size_t next = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    for (Index i = 0; i < counts[static_cast<std::size_t>(rank)]; ++i) holders[all[next++]].push_back(rank);
  }
  std::vector<bool> mine;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto& ranks = holders[keys[i]];
    const auto chosen = ranks[static_cast<std::uint64_t>(keys[i]) % ranks.size()];
    mine.push_back(chosen == comm.rank() && !arrays[i].box.is_empty());
  }
  return mine;
}

// Writes this rank's shard; the text of its index: [{name, type, shape, offset, box, checksum}, ...].
std::string write_shard(const fs::path& file, std::span<const SavedArray> arrays,
                        const std::vector<bool>& mine) {
  json index = json::array();
  std::ofstream stream;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const SavedArray& array = arrays[i];
    json entry{{"name", array.name},
               {"type", name_of(array.type)},
               {"shape", std::vector<Index>(array.shape.begin(), array.shape.end())}};
    if (mine[i]) {
      if (!stream.is_open()) stream.open(file, std::ios::binary | std::ios::trunc);
      const std::size_t bytes = static_cast<std::size_t>(array.box.volume()) * size_of(array.type);
      stream.write(static_cast<const char*>(array.data), static_cast<std::streamsize>(bytes));
      if (!stream) fail(ExitCode::input_file, file.string(), "cannot write: {}", std::strerror(errno));
      Checksum sum;
      sum.update(array.data, bytes);
      entry["box"] = box_to_json(array.box);
      entry["offset"] = offset;
      entry["checksum"] = hex_text(sum.value());
      offset += bytes;
    }
    index.push_back(std::move(entry));
  }
  if (stream.is_open()) {
    stream.close();
    if (!stream) fail(ExitCode::input_file, file.string(), "cannot write: {}", std::strerror(errno));
    sync_to_disk(file);
  }
  return json{{"bytes", offset}, {"arrays", std::move(index)}}.dump();
}

// Every rank's text on rank 0, in rank order.
std::vector<std::string> gather_texts(Communicator& comm, const std::string& text) {
  constexpr int kTag = 71;
  const std::vector<Index> sizes = comm.all_gather_value(static_cast<Index>(text.size()));
  if (comm.rank() != 0) {
    comm.send(text.data(), static_cast<Index>(text.size()), DType::u8, 0, kTag);
    return {};
  }
  std::vector<std::string> all{text};
  for (int rank = 1; rank < comm.size(); ++rank) {
    std::string other(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]), '\0');
    comm.receive(other.data(), static_cast<Index>(other.size()), DType::u8, rank, kTag);
    all.push_back(std::move(other));
  }
  return all;
}

// Puts the ranks' indices together and checks that they agree and that the boxes cover the arrays.
json merge(const std::vector<std::string>& texts, Index step, const std::string& state) {
  json shards = json::array(), arrays = json::object();
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const json part = json::parse(texts[rank]);
    const bool written = part["bytes"].get<std::uint64_t>() > 0;
    if (written) shards.push_back({{"file", shard_name(rank)}, {"bytes", part["bytes"]}});
    for (const json& entry : part["arrays"]) {
      const std::string name = entry["name"];
      json& array = arrays[name];
      if (array.is_null())
        array = {{"type", entry["type"]}, {"shape", entry["shape"]}, {"chunks", json::array()}};
      require(array["type"] == entry["type"] && array["shape"] == entry["shape"], "checkpoint",
              "array '{}': rank {} has {} {}, another rank {} {}", name, rank, entry["type"].dump(),
              entry["shape"].dump(), array["type"].dump(), array["shape"].dump());
      if (!entry.contains("box")) continue;
      array["chunks"].push_back({{"shard", shards.size() - 1},
                                 {"offset", entry["offset"]},
                                 {"box", entry["box"]},
                                 {"checksum", entry["checksum"]}});
    }
  }
  for (const auto& [name, array] : arrays.items()) {
    Index covered = 0, total = 1;
    for (const json& chunk : array["chunks"]) {
      Index volume = 1;
      for (const json& range : chunk["box"]) volume *= range[1].get<Index>() - range[0].get<Index>();
      covered += volume;
    }
    for (const json& extent : array["shape"]) total *= extent.get<Index>();
    require(covered == total, "checkpoint", "array '{}': the boxes hold {} elements of {}", name, covered,
            total);
  }
  return {{"format", kManifestFormat},   {"version", kManifestVersion}, {"step", step},
          {"state", json::parse(state)}, {"shards", std::move(shards)}, {"arrays", std::move(arrays)}};
}

void check_arrays(std::span<const SavedArray> arrays) {
  std::set<std::string> names;
  for (const SavedArray& array : arrays) {
    require(names.insert(array.name).second, "checkpoint", "two arrays are called '{}'", array.name);
    const bool fits = array.box.size() == array.shape.size() &&
                      (array.box.is_empty() || intersect(array.box, Box::whole(array.shape)) == array.box);
    require(fits, "checkpoint", "array '{}': box {} of shape {}", array.name, to_string(array.box),
            to_string(array.shape));
  }
}

// Gives a complete folder its name; one that had it before disappears.
void publish_folder(const fs::path& partial, const fs::path& folder) {
  if (fs::exists(folder)) {
    fs::path old = folder;
    old += ".replaced.partial";
    fs::remove_all(old);
    fs::rename(folder, old);
    publish(partial, folder);
    fs::remove_all(old);
  } else {
    publish(partial, folder);
  }
}

}  // namespace

fs::path save_checkpoint(Communicator& comm, const fs::path& root, Index step, const std::string& state,
                         std::span<const SavedArray> arrays) {
  const fs::path folder = root / checkpoint_name(step);
  const fs::path partial = partial_name(folder);
  try {
    run_together(comm, [&] {
      check_arrays(arrays);
      if (comm.rank() != 0) return;
      std::error_code ec;
      fs::remove_all(partial, ec);
      fs::create_directories(partial, ec);
      if (ec) fail(ExitCode::input_file, partial.string(), "cannot create the folder: {}", ec.message());
    });
    const std::vector<bool> mine = choose_writers(comm, arrays);
    std::string index;
    run_together(comm, [&] {
      index = write_shard(partial / shard_name(static_cast<std::size_t>(comm.rank())), arrays, mine);
    });
    const std::vector<std::string> texts = gather_texts(comm, index);
    run_on_root(comm, [&] {
      write_manifest(partial, merge(texts, step, state));
      publish_folder(partial, folder);
    });
  } catch (...) {
    std::error_code ec;
    if (comm.rank() == 0) fs::remove_all(partial, ec);
    throw;
  }
  return folder;
}

}  // namespace tessera
