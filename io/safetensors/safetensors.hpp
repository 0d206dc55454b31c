#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/box.hpp"
#include "parallel/communicator.hpp"
#include "parallel/dtype.hpp"

// The safetensors format: 8 bytes with the length of the header, little-endian; the header, a JSON object
// {name: {dtype, shape, data_offsets: [begin, end]}, __metadata__: {text: text}}; then the elements,
// row-major, little-endian.

namespace tessera {

/// A safetensors file open for reading, each rank on its own.
class SafetensorsFile {
 public:
  /// Element types that can be read: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL.
  struct Entry {
    std::string dtype;
    Shape shape;
    std::uint64_t begin = 0;  ///< in bytes, from the start of the data
    std::uint64_t end = 0;
  };

  /// Reads and checks the header (sizes, offsets, overlaps); throws Error(input_file).
  explicit SafetensorsFile(const std::string& path);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool has(const std::string& name) const { return entries_.contains(name); }

  /// Fills `out` (host memory) with `box` of a tensor, converted to `type`. Throws Error(input_file) where
  /// there is no such tensor (with the nearest name) or its shape is not `shape`.
  void read(const std::string& name, const Shape& shape, const Box& box, DType type, void* out) const;

 private:
  std::string path_;
  std::uint64_t data_start_ = 0;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Name, type and shape of a tensor to be written.
struct SafetensorsItem {
  std::string name;
  DType type = DType::f32;  ///< i32, i64, u8, f32, f64, bf16
  Shape shape;
};

/// Writes a safetensors file from boxes: every rank writes those it owns, in any order, without
/// communication. The constructor and close() are collective; the file gets its name in close(), and without
/// it nothing is left behind.
class SafetensorsWriter {
 public:
  SafetensorsWriter(CommPtr comm, std::string path, std::vector<SafetensorsItem> items,
                    const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Host memory, contiguous, of the tensor's type.
  void write(const std::string& name, const Box& box, const void* data);
  void close();

 private:
  struct Place {
    std::uint64_t offset;  // in the file
    DType type;
    Shape shape;
  };

  CommPtr comm_;
  std::string path_;
  std::map<std::string, Place> places_;
  std::fstream stream_;
  bool open_ = false;
};

}  // namespace tessera
