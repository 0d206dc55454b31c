#include <algorithm>
#include <cstring>
#include <fstream>

#include "io/agree.hpp"
#include "io/box_rows.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/checksum.hpp"
#include "io/checkpoint/manifest.hpp"
#include "io/hint.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::size_t kBuffer = std::size_t{1} << 20;

DType parse_dtype(const std::string& name, const std::string& where) {
  for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    if (name == name_of(type)) return type;
  }
  fail(ExitCode::input_file, where, "element type: found '{}', which is none of f32, f64, bf16, i32, i64, u8",
       name);
}

Box box_from_json(const json& ranges) {
  Box box;
  for (const json& range : ranges) box.push_back({range.at(0).get<Index>(), range.at(1).get<Index>()});
  return box;
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder) {
  std::error_code ec;
  if (!fs::is_directory(folder, ec)) fail(ExitCode::input_file, folder.string(), "no such checkpoint folder");
  const std::string where = folder.string();
  const json content = read_manifest(folder);
  try {
    step_ = content.at("step");
    state_ = content.at("state").dump();
    for (const json& shard : content.at("shards")) {
      shards_.push_back({shard.at("file").get<std::string>(), shard.at("bytes").get<std::uint64_t>()});
    }
    for (const auto& [name, entry] : content.at("arrays").items()) {
      Array array{parse_dtype(entry.at("type"), where), {}, {}};
      for (const json& extent : entry.at("shape")) array.shape.push_back(extent.get<Index>());
      for (const json& chunk : entry.at("chunks")) {
        array.chunks.push_back({chunk.at("shard").get<std::size_t>(), chunk.at("offset").get<std::uint64_t>(),
                                box_from_json(chunk.at("box")), chunk.at("checksum").get<std::string>()});
        const Chunk& added = array.chunks.back();
        const auto bytes = static_cast<std::uint64_t>(added.box.volume()) * size_of(array.type);
        if (added.shard >= shards_.size() || added.box.size() != array.shape.size() ||
            added.offset + bytes > shards_[added.shard].bytes) {
          fail(ExitCode::input_file, where, "array '{}': box {} does not lie in its shard", name,
               to_string(added.box));
        }
      }
      arrays_.emplace(name, std::move(array));
    }
  } catch (const json::exception& e) {
    fail(ExitCode::input_file, where, "damaged manifest: {}", e.what());
  }
  for (const Shard& shard : shards_) {
    const auto bytes = fs::file_size(folder / shard.file, ec);
    if (ec) fail(ExitCode::input_file, (folder / shard.file).string(), "missing: {}", ec.message());
    if (bytes != shard.bytes) {
      fail(ExitCode::input_file, (folder / shard.file).string(), "size: found {} bytes, expected {}", bytes,
           shard.bytes);
    }
  }
}

void Checkpoint::read(const std::string& name, DType type, const Shape& shape, const Box& box,
                      void* out) const {
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) {
    std::vector<std::string> names;
    for (const auto& [key, array] : arrays_) names.push_back(key);
    fail(ExitCode::input_file, folder_.string(), "no array '{}'{}", name, nearest_hint(name, names));
  }
  const Array& array = found->second;
  if (array.type != type || !(array.shape == shape)) {
    fail(ExitCode::input_file, folder_.string(), "array '{}': found {} {}, expected {} {}", name,
         name_of(array.type), to_string(array.shape), name_of(type), to_string(shape));
  }
  for (const Chunk& chunk : array.chunks) {
    if (!intersect(chunk.box, box).is_empty()) read_chunk(name, array, chunk, box, static_cast<char*>(out));
  }
}

// Streams the whole saved box through a small buffer, because its checksum covers all of it, and picks the
// wanted runs. Both the stream and the runs ascend.
void Checkpoint::read_chunk(const std::string& name, const Array& array, const Chunk& chunk, const Box& box,
                            char* out) const {
  const fs::path file = folder_ / shards_[chunk.shard].file;
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(chunk.offset));
  const std::size_t width = size_of(array.type);
  const std::uint64_t bytes = static_cast<std::uint64_t>(chunk.box.volume()) * width;
  std::vector<char> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kBuffer)));
  Checksum sum;
  std::uint64_t start = 0, end = 0;  // of the buffer, in bytes of the chunk
  auto refill = [&] {
    start = end;
    const auto n = std::min<std::uint64_t>(bytes - start, buffer.size());
    stream.read(buffer.data(), static_cast<std::streamsize>(n));
    if (!stream) fail(ExitCode::input_file, file.string(), "cannot read array '{}'", name);
    sum.update(buffer.data(), n);
    end = start + n;
  };
  if (out) {
    for_each_run(intersect(chunk.box, box), chunk.box, box, [&](Index from, Index to, Index elements) {
      std::uint64_t next = static_cast<std::uint64_t>(from) * width;
      std::uint64_t left = static_cast<std::uint64_t>(elements) * width;
      char* target = out + static_cast<std::size_t>(to) * width;
      while (left > 0) {
        while (next >= end) refill();
        const auto n = std::min(left, end - next);
        std::memcpy(target, buffer.data() + (next - start), n);
        target += n;
        next += n;
        left -= n;
      }
    });
  }
  while (end < bytes) refill();
  if (const std::string found = hex_text(sum.value()); found != chunk.checksum) {
    fail(ExitCode::input_file, file.string(), "damaged: array '{}' {}: found checksum {}, expected {}", name,
         to_string(chunk.box), found, chunk.checksum);
  }
}

void Checkpoint::verify(Communicator& comm) const {
  run_together(comm, [&] {
    int next = 0;
    for (const auto& [name, array] : arrays_) {
      for (const Chunk& chunk : array.chunks) {
        if (next++ % comm.size() == comm.rank()) read_chunk(name, array, chunk, chunk.box, nullptr);
      }
    }
  });
}

namespace {

// What interrupted saves and deletions left: "step_00000100.partial", "step_00000100.deleted.partial".
void remove_leftovers(const fs::path& root) {
  std::vector<fs::path> doomed;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(root, ec)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".partial") && step_of_name(name.substr(0, name.find('.'))))
      doomed.push_back(entry.path());
  }
  for (const fs::path& folder : doomed) fs::remove_all(folder, ec);
}

/// Renamed first, so that a deletion cut short leaves nothing that looks like a checkpoint.
void set_aside(const fs::path& folder) {
  fs::path doomed = folder;
  doomed += ".deleted.partial";
  std::error_code ec;
  fs::rename(folder, doomed, ec);
}

}  // namespace

std::vector<fs::path> list_checkpoints(const fs::path& root) {
  std::vector<std::pair<Index, fs::path>> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(root, ec)) {
    const auto step = step_of_name(entry.path().filename().string());
    if (step && entry.is_directory(ec)) found.emplace_back(*step, entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> folders;
  for (auto& [step, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

std::optional<fs::path> latest_checkpoint(Communicator& comm, const fs::path& root, const WarningSink& warn) {
  // Rank 0's listing decides: a shared file system may show different ranks different moments.
  std::string names;
  if (comm.rank() == 0) {
    for (const fs::path& folder : list_checkpoints(root)) names += folder.filename().string() + "\n";
  }
  names = comm.broadcast_text(names);
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = names.find('\n', at);
    const fs::path folder = root / names.substr(at, end - at);
    at = end + 1;
    try {
      std::optional<Checkpoint> checkpoint;
      run_together(comm, [&] { checkpoint.emplace(folder); });
      checkpoint->verify(comm);
      return folder;
    } catch (const Error& e) {
      if (e.code() != ExitCode::input_file) throw;
      if (comm.rank() == 0 && warn) warn(std::string(e.what()) + "; this checkpoint is skipped");
    }
  }
  return std::nullopt;
}

void prune_checkpoints(Communicator& comm, const fs::path& root, const KeepPolicy& keep) {
  run_on_root(comm, [&] {
    Index good = 0;
    for (const fs::path& folder : list_checkpoints(root)) {
      try {
        const Checkpoint checkpoint(folder);
        if (++good <= std::max<Index>(keep.last, 1)) continue;
        if (keep.every > 0 && checkpoint.step() % keep.every == 0) continue;
      } catch (const Error&) {
        continue;
      }
      set_aside(folder);
    }
    remove_leftovers(root);
  });
}

void discard_later_checkpoints(Communicator& comm, const fs::path& root, Index step) {
  run_on_root(comm, [&] {
    for (const fs::path& folder : list_checkpoints(root)) {
      const bool later = step_of_name(folder.filename().string()).value_or(0) > step;
      if (later && fs::exists(folder / "manifest.json")) set_aside(folder);
    }
    remove_leftovers(root);
  });
}

}  // namespace tessera
