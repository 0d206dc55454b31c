#include "io/safetensors/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "io/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/box_rows.hpp"
#include "io/hint.hpp"
#include "io/safetensors/elements.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr Index kBufferElements = Index{1} << 16;

// Shape, type and place of one tensor, all checked against each other and the size of the data.
SafetensorsFile::Entry parse_entry(const std::string& path, const std::string& name, const json& item,
                                   std::uint64_t data_bytes) {
  SafetensorsFile::Entry entry;
  entry.dtype = item.at("dtype").get<std::string>();
  const std::size_t width = safetensors_width(entry.dtype);
  if (width == 0)
    fail(ExitCode::input_file, path, "tensor '{}': element type '{}' is not known", name, entry.dtype);
  if (item.at("shape").size() > kMaxDims) {
    fail(ExitCode::input_file, path, "tensor '{}': found {} dimensions, expected at most {}", name,
         item.at("shape").size(), kMaxDims);
  }
  std::uint64_t bytes = width;
  for (const json& extent : item.at("shape")) {
    const auto n = extent.get<std::int64_t>();
    if (n < 0 || (n > 0 && bytes > data_bytes / static_cast<std::uint64_t>(n))) {
      fail(ExitCode::input_file, path, "tensor '{}': shape {} does not fit into {} bytes of data", name,
           item.at("shape").dump(), data_bytes);
    }
    bytes *= static_cast<std::uint64_t>(n);
    entry.shape.push_back(n);
  }
  entry.begin = item.at("data_offsets").at(0).get<std::uint64_t>();
  entry.end = item.at("data_offsets").at(1).get<std::uint64_t>();
  if (entry.begin > entry.end || entry.end > data_bytes || entry.end - entry.begin != bytes) {
    fail(ExitCode::input_file, path,
         "tensor '{}': found offsets [{}, {}] in {} bytes of data, expected {} bytes", name, entry.begin,
         entry.end, data_bytes, bytes);
  }
  return entry;
}

void check_overlaps(const std::string& path, const std::map<std::string, SafetensorsFile::Entry>& entries) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, entry] : entries) ranges.emplace_back(entry.begin, entry.end);
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      fail(ExitCode::input_file, path, "tensors overlap: [{}, {}] and [{}, {}]", ranges[i - 1].first,
           ranges[i - 1].second, ranges[i].first, ranges[i].second);
    }
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  std::error_code ec;
  const std::uint64_t bytes = fs::file_size(path, ec);
  if (ec) fail(ExitCode::input_file, path, "cannot read: {}", ec.message());
  std::ifstream stream(path, std::ios::binary);
  std::uint64_t header_bytes = 0;
  stream.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  if (!stream || header_bytes > kMaxHeader || header_bytes > bytes - sizeof header_bytes) {
    fail(ExitCode::input_file, path, "not a safetensors file: found a header of {} bytes in a file of {}",
         header_bytes, bytes);
  }
  std::string text(header_bytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  const json header = json::parse(text, nullptr, false);
  if (!stream || !header.is_object())
    fail(ExitCode::input_file, path, "not a safetensors file: the header is no JSON");
  data_start_ = sizeof header_bytes + header_bytes;
  try {
    for (const auto& [name, item] : header.items()) {
      if (name == "__metadata__") {
        metadata_ = item.get<std::map<std::string, std::string>>();
      } else {
        entries_[name] = parse_entry(path, name, item, bytes - data_start_);
      }
    }
  } catch (const json::exception& e) {
    fail(ExitCode::input_file, path, "damaged header: {}", e.what());
  }
  check_overlaps(path, entries_);
}

void SafetensorsFile::read(const std::string& name, const Shape& shape, const Box& box, DType type,
                           void* out) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    std::vector<std::string> names;
    for (const auto& [key, entry] : entries_) names.push_back(key);
    fail(ExitCode::input_file, path_, "no tensor '{}'{}", name, nearest_hint(name, names));
  }
  const Entry& entry = found->second;
  if (!(entry.shape == shape)) {
    fail(ExitCode::input_file, path_, "tensor '{}': found shape {}, expected {}", name,
         to_string(entry.shape), to_string(shape));
  }
  std::ifstream stream(path_, std::ios::binary);
  const std::size_t width = safetensors_width(entry.dtype);
  std::vector<char> buffer;
  for_each_run(box, Box::whole(shape), box, [&](Index from, Index to, Index elements) {
    stream.seekg(
        static_cast<std::streamoff>(data_start_ + entry.begin + static_cast<std::uint64_t>(from) * width));
    for (Index done = 0; done < elements; done += kBufferElements) {
      const Index n = std::min(elements - done, kBufferElements);
      buffer.resize(static_cast<std::size_t>(n) * width);
      stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
      if (!stream) fail(ExitCode::input_file, path_, "cannot read tensor '{}'", name);
      convert_elements(entry.dtype, buffer.data(), type,
                       static_cast<char*>(out) + static_cast<std::size_t>(to + done) * size_of(type), n);
    }
  });
}

SafetensorsWriter::SafetensorsWriter(CommPtr comm, std::string path, std::vector<SafetensorsItem> items,
                                     const std::map<std::string, std::string>& metadata)
    : comm_(std::move(comm)), path_(std::move(path)) {
  // Wide elements first, so that every tensor is aligned.
  std::stable_sort(items.begin(), items.end(),
                   [](const auto& a, const auto& b) { return size_of(a.type) > size_of(b.type); });
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const SafetensorsItem& item : items) {
    require(!places_.contains(item.name), "safetensors", "two tensors are called '{}'", item.name);
    const std::uint64_t end = offset + static_cast<std::uint64_t>(count(item.shape)) * size_of(item.type);
    header[item.name] = {{"dtype", safetensors_name(item.type)},
                         {"shape", std::vector<Index>(item.shape.begin(), item.shape.end())},
                         {"data_offsets", {offset, end}}};
    places_[item.name] = {offset, item.type, item.shape};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t header_bytes = text.size();
  for (auto& [name, place] : places_) place.offset += sizeof header_bytes + header_bytes;
  const fs::path partial = partial_name(path_);
  open_ = true;
  run_on_root(*comm_, [&] {
    std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
    stream.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
    stream.write(text.data(), static_cast<std::streamsize>(text.size()));
    stream.close();
    if (!stream) fail(ExitCode::input_file, path_, "cannot create: {}", std::strerror(errno));
    fs::resize_file(partial, sizeof header_bytes + header_bytes + offset);
  });
  run_together(*comm_, [&] {
    stream_.open(partial, std::ios::binary | std::ios::in | std::ios::out);
    if (!stream_) fail(ExitCode::input_file, path_, "cannot open: {}", std::strerror(errno));
  });
}

SafetensorsWriter::~SafetensorsWriter() {
  std::error_code ec;
  stream_.close();
  if (open_ && comm_->rank() == 0) fs::remove(partial_name(path_), ec);
}

void SafetensorsWriter::write(const std::string& name, const Box& box, const void* data) {
  const auto found = places_.find(name);
  require(found != places_.end(), "safetensors", "no tensor '{}' was announced", name);
  const Place& place = found->second;
  const std::size_t width = size_of(place.type);
  for_each_run(box, Box::whole(place.shape), box, [&](Index to, Index from, Index elements) {
    stream_.seekp(static_cast<std::streamoff>(place.offset + static_cast<std::uint64_t>(to) * width));
    stream_.write(static_cast<const char*>(data) + static_cast<std::size_t>(from) * width,
                  static_cast<std::streamsize>(static_cast<std::size_t>(elements) * width));
  });
  if (!stream_) fail(ExitCode::input_file, path_, "cannot write tensor '{}': {}", name, std::strerror(errno));
}

void SafetensorsWriter::close() {
  if (!open_) return;
  run_together(*comm_, [&] {
    stream_.close();
    if (stream_.fail()) fail(ExitCode::input_file, path_, "cannot write: {}", std::strerror(errno));
    sync_to_disk(partial_name(path_));
  });
  open_ = false;
  run_on_root(*comm_, [&] { publish(partial_name(path_), path_); });
}

}  // namespace tessera
